// Transforms: the rules of a mapping, each with its reverse.
//
// Patterns are regular expressions, searched anywhere; `*.` stands for an index and a dot: on the
// source side it collects, on the target side it enumerates, on both it is carried over. A pattern
// that ends in a letter or digit does not match in the middle of a word.
//
// Source: the specification "Dynamic weight loading", WeightTransform; docs/mappings.md.
// Thread safety: immutable values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/operation.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Restricts a transform to the names below a sub-model's path: `prefix` and a dot are taken off
/// before its patterns look at a name, and put back after. A name may have `base_model_prefix` and
/// a dot in front of that. Either may be empty; names outside the scope never match.
struct Scope {
  std::string prefix;             ///< the sub-model's path
  std::string base_model_prefix;  ///< may stand in front

  friend bool operator==(const Scope&, const Scope&) = default;
};

/// Renames; never claims. One target, or as many as sources. Renamings chain.
struct WeightRenaming {
  std::vector<std::string> source_patterns;  ///< of names as they are found
  std::vector<std::string> target_patterns;  ///< of names as they are to be
  bool required = false;                     ///< matching nothing is an error
  std::optional<Scope> scope{};              ///< the names it may touch; nothing: all
};

/// Takes a whole component off a name, or puts one on, behind `model_prefix`. Exactly one of
/// `prefix_to_add` and `prefix_to_remove` is given; all three are plain text. Adding leaves names
/// alone that have the prefix already.
struct PrefixChange {
  std::string prefix_to_add;     ///< "": none is added
  std::string prefix_to_remove;  ///< "": none is taken off
  std::string model_prefix{};    ///< what stands in front
  bool required = false;         ///< matching nothing is an error
  std::optional<Scope> scope{};  ///< the names it may touch; nothing: all
};

/// Renames that share intermediate names (norm0 → norm1, norm1 → norm2): at most one pair acts on a
/// name, and none does unless the first source, the guard, matches some name of the checkpoint. So
/// the first source must be absent where the renaming was done already, and the last target where
/// it was not.
struct GroupWeightRename {
  std::vector<std::string> source_patterns;  ///< of names as they are found
  std::vector<std::string> target_patterns;  ///< of names as they are to be
  bool required = false;                     ///< matching nothing is an error
  std::optional<Scope> scope{};              ///< the names it may touch; nothing: all
};

/// A renaming whose target's \1 is the number captured, plus `offset`.
struct IndexOffsetWeightRename {
  std::string source_pattern;    ///< with one captured number
  std::string target_pattern;    ///< \1 stands for it
  int64_t offset = 0;            ///< added to it
  bool required = false;         ///< matching nothing is an error
  std::optional<Scope> scope{};  ///< the names it may touch; nothing: all
};

/// Claims the tensors that its sources match and makes the targets of them.
struct WeightConverter {
  std::vector<std::string> source_patterns;  ///< of names as they are found
  std::vector<std::string> target_patterns;  ///< of names as they are to be
  std::vector<OperationPtr> operations;      ///< applied in order
  bool required = false;                     ///< matching nothing is an error
  std::optional<Scope> scope{};              ///< the names it may touch; nothing: all
};

/// Any kind of transform.
using WeightTransform = std::variant<WeightRenaming, PrefixChange, GroupWeightRename,
                                     IndexOffsetWeightRename, WeightConverter>;

/// What every kind of transform comes down to.
struct TransformForm {
  std::vector<std::string> source_patterns;  ///< of names as they are found
  std::vector<std::string> target_patterns;  ///< of names as they are to be
  std::optional<Scope> scope;                ///< the names it may touch; nothing: all
  bool required = false;                     ///< matching nothing is an error
  bool converts = false;                     ///< claims names; else a renaming
  bool guarded = false;                      ///< acts only if source 0 matches some name
  int64_t index_offset = 0;                  ///< added to the number that \1 stands for
};
/// What a transform of any kind comes down to.
TransformForm form_of(const WeightTransform& transform);

/// "WeightRenaming", "PrefixChange", …, as in the JSON form.
std::string_view type_name(const WeightTransform& transform);

/// The transform that undoes this one: sides swapped, operations reversed.
/// Law: reversed(reversed(t)) == t.
WeightTransform reversed(const WeightTransform& transform);

/// The same transform, in a scope.
WeightTransform with_scope(WeightTransform transform, Scope scope);

}  // namespace weightloom
