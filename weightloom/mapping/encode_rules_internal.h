// Which targets are to be encoded, by name and shape.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/mapping/name_patterns.h"
#include "weightloom/mapping/quantised_targets.h"

namespace weightloom {

/// True for "…layers.3.….weight" of two dims that is no embedding, norm, head or router.
bool is_linear(std::string_view name, const Shape& shape);
/// True for a stack of experts' matrices: three dims, and a component "experts".
bool is_expert_stack(std::string_view name, const Shape& shape);

/// A list of modules that are not converted, matched as Transformers matches it: an entry is a
/// module and all in it, a regular expression up to the end of a component, or the end of a name.
/// compressed-tensors' "re:…" are expressions from the beginning, and what is none is a shell glob.
/// Thread safety: none.
class ExcludedModules {
 public:
  explicit ExcludedModules(std::span<const std::string> modules);

  /// True if one of the entries matches.
  bool match(std::string_view module);
  /// The entries that are no "re:…" and no glob, and match none of these modules, in order.
  std::vector<std::string> without_those_of(std::span<const std::string_view> modules);

 private:
  struct Entry {
    std::string text;
    std::optional<NamePatterns> pattern{};  // of an expression
    bool is_glob = false;
  };
  static Entry entry_of(const std::string& text);
  static bool matches(Entry& entry, std::string_view module);

  std::vector<Entry> entries_;
};

}  // namespace weightloom
