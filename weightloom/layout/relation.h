// A relation between a set of source tensors and a set of target tensors, and its inverse.
#pragma once

#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// `targets[t]` says where each element of target t comes from (or that it is a pad); `drops[s]`
/// are the elements of source s that go nowhere, as pads over source s's own offsets, with the
/// value to put there when the relation is inverted.
struct Relation {
  std::vector<Shape> sources;              ///< of source s
  std::vector<Layout> targets;             ///< of target t, over the sources
  std::vector<std::vector<Region>> drops;  ///< one list per source
};

/// Swaps the sides: source s becomes a target of the result, whose layout is made of the regions
/// that read it and of its drops; the targets' pads become drops.
/// Law:    invert(invert(r)) == r,
/// pointwise. Note:   every source element must be read or dropped exactly once; choose owners
/// before. What is not
///         so shows in coverage of the result.
/// Errors: usage if a region names a source outside [0,
///         n).
Relation invert(const Relation& relation);

}  // namespace weightloom
