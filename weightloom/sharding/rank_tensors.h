// What the ranks of a program say that they hold, put together into one manifest.
//
// A program knows of each tensor only its own part: the whole's shape, a device mesh that this rank
// is on, and a placement for each of its axes. Another rank may have the tensor on another mesh
// (the row of a larger mesh that it stands in), or not at all (another pipeline stage). From what
// all of them say follows a sharding over meshes of all ranks: the axes of the program's mesh, axes
// for the ranks between them, which hold replicas, and the stages that have the tensor.
//
// Said can be: ranks at equal distances along each axis (init_device_mesh and its sub-meshes), the
// same distances wherever the tensor stands. A mesh of ranks in another order is refused.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/sharding/dtensor_placements.h"
#include "weightloom/sharding/layout_manifest.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A tensor as one rank that holds a part of it describes it.
struct RankTensor {
  std::string name{};                          ///< the same on all ranks
  DType dtype = DType::F32;                    ///< of each element
  Shape shape{};                               ///< of the whole
  Shape local_shape{};                         ///< of what this rank holds
  std::vector<MeshAxis> axes{};                ///< of the device mesh; none: held whole
  std::vector<int64_t> mesh_ranks{};           ///< on that mesh, row-major; this rank among them
  std::vector<DTensorPlacement> placements{};  ///< one per axis
  /// The name of another tensor that is the same memory here; "": none is, or this part is empty.
  std::string tied_to{};

  friend bool operator==(const RankTensor&, const RankTensor&) = default;
};
/// "[7, 4] of F32 [14, 4] on the mesh 'fsdp=2' as [Shard(0)]".
std::string to_string(const RankTensor& tensor);

/// The state that ranks hold together.
struct JointState {
  LayoutManifest manifest{};                                ///< without second names
  std::vector<std::pair<std::string, std::string>> tied{};  ///< second name, and whose it is
};

/// What rank i says stands at place i. Where carving order and the order that torch reads
/// placements in give different parts, the one counts that gives the shapes that all ranks hold.
/// Errors: plan, with a finding for each tensor that cannot be told: ranks that contradict each
/// other (`ranks_differ`), ranks in another order (`mesh_order`), stages that are no product
/// (`stages`), parts of other shapes than the placements give (`part_mismatch`), both orders fit
/// and give different rows (`ambiguous_placements`), tied here and not there (`ranks_differ`).
JointState state_of(std::span<const std::vector<RankTensor>> by_rank);

}  // namespace weightloom
