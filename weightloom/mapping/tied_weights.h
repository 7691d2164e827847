// Tied weights: names that stand for one tensor. A checkpoint holds it once, under either name.
//
// Source: facts on Transformers, tied weights; the specification, section on reuse.
// Thread safety: values, pure functions.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// (tied, with what): names, or patterns of them.
using TiedPair = std::pair<std::string, std::string>;

/// A name that stands for the tensor of another name.
struct TiedName {
  std::string name;     ///< which has no tensor of its own
  std::string same_as;  ///< which has

  friend bool operator==(const TiedName&, const TiedName&) = default;
};

/// The pairs with patterns and modules written out over the names that there are: what a pattern
/// of the first side matches from its beginning is tied, in order, with what that of the second
/// does, over again where the second has fewer. A pair of whole names is as it stands.
/// Errors: mapping if a pattern does not compile.
std::vector<TiedPair> expand_tied(std::span<const TiedPair> pairs,
                                  std::span<const std::string> names);

/// What tied pairs come to for names of which some are there.
struct TiedOutcome {
  std::vector<TiedName> restored;  ///< one of the two is there: the other is the same tensor
  std::vector<TiedName> stored;    ///< both are there: values tell whether they are one
};
/// `there` and `wanted` are sorted. Restored are names in `wanted`; if it is empty, all.
TiedOutcome resolve_tied(std::span<const TiedPair> pairs, std::span<const std::string> there,
                         std::span<const std::string> wanted);

}  // namespace weightloom
