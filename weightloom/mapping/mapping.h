// A mapping: the name rules and operations that lead from hub names to runtime names, as a value.
//
// JSON form (mappings/*.json, users' own files):
//   {"format": "weightloom.mapping/1", "name": "mixtral", "aliases": ["minimax"], "transforms": [
//     {"type": "WeightRenaming",
//      "source_patterns": [".block_sparse_moe."], "target_patterns": [".mlp."]},
//     {"type": "WeightConverter",
//      "source_patterns": [".experts.*.w1.weight", ".experts.*.w3.weight"],
//      "target_patterns": [".experts.gate_up_proj"],
//      "operations": [{"op": "MergeModulelist", "dim": 0}, {"op": "Concatenate", "dim": 1}]}]}
// A transform may be "required": true; "renames_first": false marks a reversed mapping.
//
// Patterns are regular expressions, searched anywhere; `*.` stands for an index and a dot: on the
// source side it collects, on the target side it enumerates, on both it is carried over. A pattern
// that ends in a letter or digit does not match in the middle of a word.
//
// Thread safety: immutable values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/operation.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Renames; never claims. One target, or as many as sources.
struct WeightRenaming {
  std::vector<std::string> source_patterns;
  std::vector<std::string> target_patterns;
  bool required = false;  // matching nothing is an error
};

/// Claims the tensors that its sources match and makes the targets of them.
struct WeightConverter {
  std::vector<std::string> source_patterns;
  std::vector<std::string> target_patterns;
  std::vector<OperationPtr> operations;
  bool required = false;
};

using WeightTransform = std::variant<WeightRenaming, WeightConverter>;

class Mapping {
 public:
  /// No transforms: every name stays.
  Mapping() = default;
  /// Errors: mapping, naming the transform: empty or equal patterns, patterns that do not compile,
  /// counts that do not fit.
  Mapping(std::string name, std::vector<WeightTransform> transforms);
  /// Errors: mapping, naming `file` and the place: not JSON, a duplicate key, an unknown word.
  static Mapping parse(std::string_view json, std::string_view file);

  const std::string& name() const noexcept { return name_; }
  const std::vector<std::string>& aliases() const noexcept { return aliases_; }
  const std::vector<WeightTransform>& transforms() const noexcept { return transforms_; }
  bool empty() const noexcept { return transforms_.empty(); }
  /// Renames run before converters (hub → runtime) or after them (a reversed mapping).
  bool renames_first() const noexcept { return renames_first_; }

  /// The mapping back: list reversed, each transform reversed, phases swapped.
  /// Errors: mapping, naming the transform, if it has no way back: a source pattern that is not
  ///         one text (a class, a quantifier, a choice outside a group), or more sources than
  ///         targets in a renaming.
  Mapping reversed() const;
  /// The JSON form: one line per transform, stable; its hash (FNV-1a 64, hex) names the mapping.
  std::string to_json() const;
  std::string hash() const;

 private:
  std::string name_;
  std::vector<std::string> aliases_;
  std::vector<WeightTransform> transforms_;
  bool renames_first_ = true;
};

}  // namespace weightloom
