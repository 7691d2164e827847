// A conversion that was planned, with all that running it needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "source.h"
#include "weightloom/base/memory_files.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/conversion.h"

namespace weightloom::python {

/// What the caller asks for, in the words of the Python package.
struct PlanRequest {
  std::string mapping = "auto";  ///< or the text of a mapping file, which begins with '{'
  std::string from = "auto";     ///< auto, hub, runtime
  std::string to = "same";       ///< same, hub, runtime
  std::optional<std::string> dtype;
  std::vector<std::string> keep_dtype;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string architecture;
  std::vector<Rename> renames;
  bool lenient = false;
  std::optional<std::string> config_json;  ///< in place of what stands beside the tensors
  std::optional<Expected> expected{};      ///< what a model has places for
};

/// The same in the library's words. Errors: usage.
Selection selection_of(const PlanRequest& request);
/// Puts the text of a mapping, if one was given, where that selection looks for it.
void add_given_mapping(MemoryFiles& files, const PlanRequest& request);

/// A plan; immutable, shared by the runs of it.
class Plan {
 public:
  /// Errors: those of plan_conversion; usage for an unknown word.
  static std::shared_ptr<const Plan> make(SourcePtr source, const PlanRequest& request,
                                          const Registry& registry, int threads);

  const Source& source() const noexcept { return *source_; }
  const Conversion& conversion() const noexcept { return conversion_; }
  const CopyProgram& program() const noexcept { return conversion_.program; }
  bool lenient() const noexcept { return lenient_; }
  /// To run it with: has the texts that the caller gave.
  const Syscalls& calls() const noexcept { return texts_->calls(); }
  /// Errors: plan, with all findings.
  void refuse_if_refused() const;
  /// This plan with something of its conversion changed.
  std::shared_ptr<const Plan> with(Conversion conversion) const;

 private:
  explicit Plan(SourcePtr source);

  SourcePtr source_;
  std::shared_ptr<MemoryFiles> texts_;
  Conversion conversion_;
  bool lenient_ = false;
};

using PlanPtr = std::shared_ptr<const Plan>;

}  // namespace weightloom::python
