// A mapping: the name rules and operations that lead from hub names to runtime names, as a value.
//
// JSON form (mappings/*.json, users' own files; docs/mappings.md describes it in full):
//   {"format": "weightloom.mapping/1", "name": "mixtral", "aliases": ["minimax"], "transforms": [
//     {"type": "WeightRenaming",
//      "source_patterns": [".block_sparse_moe."], "target_patterns": [".mlp."]},
//     {"type": "WeightConverter",
//      "source_patterns": [".experts.*.w1.weight", ".experts.*.w3.weight"],
//      "target_patterns": [".experts.gate_up_proj"],
//      "operations": [{"op": "MergeModulelist", "dim": 0}, {"op": "Concatenate", "dim": 1}]}]}
//
// Thread safety: immutable values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/mapping/companions.h"
#include "weightloom/mapping/operation_makers.h"
#include "weightloom/mapping/transform.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Of a cast to one of `when` (empty: any): targets whose name `pattern` matches get `dtype`
/// instead. `pattern` is a regular expression, searched anywhere, in which `*` is any text.
struct DtypeRule {
  std::string pattern;        ///< of names in the runtime layout
  DType dtype = DType::F32;   ///< for those that match
  std::vector<DType> when{};  ///< the casts it is for; empty: every one
};

/// What a mapping says besides its transforms.
struct MappingRules {
  std::vector<std::string> aliases{};       ///< other names in the registry
  std::vector<DtypeRule> dtype_rules{};     ///< the first that matches counts
  std::vector<CompanionRule> companions{};  ///< in front of default_companion_rules()
};

/// The rules between hub names and runtime names; see the top of this file.
class Mapping {
 public:
  /// No transforms: every name stays.
  Mapping() = default;
  /// Errors: mapping, naming the transform: empty or equal patterns, patterns that do not compile,
  /// counts that do not fit.
  Mapping(std::string name, std::vector<WeightTransform> transforms, MappingRules rules = {});
  /// Errors: mapping, naming `file` and the place: not JSON, a duplicate key, an unknown word.
  static Mapping parse(std::string_view json, std::string_view file,
                       const OperationMakers& operations = OperationMakers::built_in());

  /// As in mapping files and in the registry.
  const std::string& name() const noexcept { return name_; }
  /// Other names in the registry.
  const std::vector<std::string>& aliases() const noexcept { return rules_.aliases; }
  /// In the order that counts within renamings, and within converters.
  const std::vector<WeightTransform>& transforms() const noexcept { return transforms_; }
  /// Which tensors a cast leaves in another dtype.
  const std::vector<DtypeRule>& dtype_rules() const noexcept { return rules_.dtype_rules; }
  /// How scales go with their weights.
  const std::vector<CompanionRule>& companions() const noexcept { return rules_.companions; }
  /// True without transforms.
  bool empty() const noexcept { return transforms_.empty(); }
  /// Renames run before converters (hub → runtime) or after them (a reversed mapping).
  bool renames_first() const noexcept { return renames_first_; }

  /// The mapping back: list reversed, each transform reversed, phases swapped.
  /// Errors: mapping, naming the transform, if it has no way back: a source pattern that is not
  ///         one text (a class, a quantifier, a choice outside a group), or more sources than
  ///         targets in a renaming.
  Mapping reversed() const;
  /// This mapping without the renamings that have no way back. Who goes back by it leaves the names
  /// that they make as they are, and has to see that forwards they come out the same.
  Mapping without_one_way_renamings() const;
  /// This mapping with some of its transforms, by ascending place.
  Mapping with_only(std::span<const int64_t> places) const;
  /// This mapping with more transforms after its own.
  Mapping followed_by(std::span<const WeightTransform> more) const;
  /// The JSON form: one line per transform, stable; its hash (FNV-1a 64, hex) names the mapping.
  std::string to_json() const;
  /// 16 hexadecimal digits of to_json().
  std::string hash() const;

 private:
  std::string name_;
  std::vector<WeightTransform> transforms_;
  MappingRules rules_;
  bool renames_first_ = true;
};

}  // namespace weightloom
