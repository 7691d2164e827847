// How the scales of a quantised tensor are spread when the tensor is: every rank gets the scales of
// the blocks that its part lies in, though two ranks may then hold the same ones.
//
// A rank that computes with its part alone takes scale ⌊i/block⌋ for its own row i. So a part has
// to begin with a block, or lie in one; other cuts no grid of scales can say, and they are refused.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What sharding_of_scales gives: a sharding, unless there is a refusal.
struct ScaleSharding {
  Sharding sharding;    ///< of the scales
  std::string refusal;  ///< why there is none, with the numbers; "" if there is one
};

/// The sharding of scales, one for each block of a tensor that is spread by `sharding`.
/// Shape: `block` has one size per dim of `shape`, of values that share a scale; 0: all of the dim.
/// Law: with codes and scales cut, each rank's values are its part of the whole's.
/// Errors: as local_part.
ScaleSharding sharding_of_scales(const Sharding& sharding, const MeshSet& meshes,
                                 const Shape& shape, std::span<const int64_t> block);

}  // namespace weightloom
