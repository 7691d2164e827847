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
  std::optional<std::string> config_json;   ///< in place of what stands beside the tensors
  std::optional<Expected> expected{};       ///< what a model has places for
  std::string mesh;                         ///< as the command has it; "": no ranks
  std::optional<int64_t> rank{};            ///< of the mesh, the only one that is made
  std::optional<std::string> tp_plan{};     ///< auto, a path, or the text of such a file
  std::optional<std::string> placements{};  ///< a path, or the text
  std::optional<std::string> load_specs{};  ///< a path, or the text
  bool dequantize = false;                  ///< codes and scales become values
  std::string quantize = "keep";            ///< keep, fp8-block, mxfp4
};

/// The same in the library's words; texts that were given in place of paths go to `files`.
/// Errors: usage; format, not_found and io for placements and LoadSpecs.
Selection selection_of(const PlanRequest& request, MemoryFiles& files,
                       const OperationMakers& operations);

/// A plan; immutable, shared by the runs of it.
class Plan {
 public:
  /// Errors: those of plan_conversion; usage for an unknown word.
  static std::shared_ptr<const Plan> make(SourcePtr source, const PlanRequest& request,
                                          const Registry& registry, int threads);

  const Source& source() const noexcept { return *source_; }
  /// What is made: of the rank that was asked for, else of whole targets.
  const Conversion& conversion() const noexcept { return *made_; }
  const CopyProgram& program() const noexcept { return made_->program; }
  /// Of whole targets.
  const Conversion& whole() const noexcept { return *whole_; }
  /// The one that was asked for.
  std::optional<int64_t> rank() const noexcept { return rank_; }
  /// `whole` for the rank that was asked for, else for all ranks of the mesh, if there is one.
  Conversion for_output(Conversion whole) const;
  bool lenient() const noexcept { return lenient_; }
  /// To run it with: has the texts that the caller gave.
  const Syscalls& calls() const noexcept { return texts_->calls(); }
  /// Errors: plan, with all findings.
  void refuse_if_refused() const;
  /// Errors: as refuse_if_refused; usage if there are ranks and none was asked for.
  void refuse_unless_loadable() const;
  /// This plan with something of its whole conversion changed.
  std::shared_ptr<const Plan> with(Conversion whole) const;
  /// Likewise, for one rank of the spread that it has by then.
  std::shared_ptr<const Plan> of_rank(Conversion whole, int64_t rank) const;

 private:
  explicit Plan(SourcePtr source);
  void set(Conversion whole);

  SourcePtr source_;
  std::shared_ptr<MemoryFiles> texts_;
  std::shared_ptr<const Conversion> whole_;
  std::shared_ptr<const Conversion> made_;  // the same without a rank
  std::optional<int64_t> rank_;
  bool lenient_ = false;
};

using PlanPtr = std::shared_ptr<const Plan>;

}  // namespace weightloom::python
