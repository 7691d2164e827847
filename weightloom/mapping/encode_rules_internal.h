// Which targets are to be encoded, by name and shape.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/mapping/quantised_targets.h"

namespace weightloom {

/// True for "…layers.3.….weight" of two dims that is no embedding, norm, head or router.
bool is_linear(std::string_view name, const Shape& shape);
/// True for a stack of experts' matrices: three dims, and a component "experts".
bool is_expert_stack(std::string_view name, const Shape& shape);

/// The modules that a config says are not converted, matched as Transformers matches them: from the
/// beginning up to the end of a component, as a regular expression, or as the end of a name.
/// Thread safety: none.
class ExcludedModules {
 public:
  /// Those that do not compile as patterns are matched as they are written.
  explicit ExcludedModules(std::span<const std::string> modules);

  bool match(std::string_view module);

 private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;
};

}  // namespace weightloom
