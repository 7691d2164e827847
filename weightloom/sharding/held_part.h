// What one rank holds of a tensor that it describes, told by that rank alone.
//
// Ranks need not agree on anything, nor speak to each other: the tensor's mesh, this rank's place
// on it, the placements and the shape that is held say it. rank_tensors.h puts together what all
// say.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/sharding/rank_tensors.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The part of `tensor` that the rank at `coordinate` of its mesh holds, as a sharding over the
/// mesh of one_rank(): tables of its rows. `tensor.mesh_ranks` and `tied_to` do not matter.
/// Placements do not say which of two orders cut the tensor (dtensor_placements.h): the one counts
/// that gives the shape that is held.
/// Errors: usage, with the tensor: there is no such place on the mesh; neither order gives the shape
/// that is held (with those that they give); both give it, of other rows.
Sharding held_part(const RankTensor& tensor, const std::vector<int64_t>& coordinate);

}  // namespace weightloom
