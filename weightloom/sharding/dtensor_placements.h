// DTensor's placements as cuts in carving order.
//
// A DTensor has one placement for each axis of its mesh: Shard(dim), _StridedShard(dim,
// split_factor) or Replicate. Where FSDP cuts what TP has cut, the mesh names fsdp first and the
// cut happened last: its placement is then strided, and split_factor is the number of pieces that
// the dim was in. Carving order says what happened: an axis is placed after so many others that
// their sizes multiply to its split_factor.
//
// Where an order explains the split factors and sizes divide, that is what torch computes from
// placements too. Where sizes do not divide, torch (2.13: distribute_tensor,
// compute_local_shape_and_global_offset) goes left to right and cuts each of split_factor chunks,
// which gives other rows: of 7 rows under [_StridedShard(0, 2), Shard(0)] on a mesh of 3 by 2, rank
// (2, 0) has row 6 and (2, 1) none. But fully_shard over TP gives its parameters these placements
// and stores what it cut: (2, 0) holds none and (2, 1) row 6, so that torch's own offsets are wrong
// for them. `carving` gives what the cuts made, and is right for tensors of FSDP over TP;
// `left_to_right` gives what torch says of the DTensor, and is right for tensors that
// distribute_tensor made.
//
// Where no order explains them, the two differ even if sizes divide: under [_StridedShard(0, 4),
// Shard(0), _StridedShard(0, 2)] on a mesh of 2 by 2 by 2 torch gives rank 0 rows 0 and 4 of 16;
// FSDP of what expert parallelism cut in stripes holds rows 0 and 1.
// Source: the specification "LoadSpec", section 1.2. Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/sharding/load_spec.h"
#include "weightloom/sharding/mesh.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One of a DTensor's placements.
struct DTensorPlacement {
  /// Of torch's classes.
  enum class Kind { replicate, shard, strided_shard };
  Kind kind = Kind::replicate;  ///< which
  int dim = 0;                  ///< that is cut
  int64_t split_factor = 1;     ///< of strided_shard

  friend bool operator==(const DTensorPlacement&, const DTensorPlacement&) = default;
};

/// Which way uneven cuts go; see the top of this file.
enum class PlacementOrder { carving, left_to_right };

/// The cuts of a DTensor, one placement per axis of `mesh`; a replica is none. In carving order,
/// where no order explains the split factors: left to right in stripes, but a strided cut by the
/// first axis is FSDP's, goes last and is not striped.
/// Errors: usage if there are not as many placements as axes, or a split_factor is below 1.
std::vector<CutStep> cuts_of(const Mesh& mesh, std::span<const DTensorPlacement> placements,
                             PlacementOrder order = PlacementOrder::carving);

/// The way back: placements with which torch says what a sharding of a tensor of `shape` over this
/// mesh cuts, one per axis. Nothing where it has none: other rules than chunk, unequal groups,
/// copies, pads, stages; stripes of a dim that is cut otherwise too; pieces that are cut again and
/// do not divide the dim.
/// Law: cuts_of(mesh, *placements_of(mesh, s, shape), left_to_right) gives each rank what s gives.
std::optional<std::vector<DTensorPlacement>> placements_of(const Mesh& mesh,
                                                           const Sharding& sharding,
                                                           const Shape& shape);

/// A tensor's layout as the program has it by now, and the keys that it stands for.
struct CurrentLayout {
  std::string name{};                          ///< in the program
  std::vector<std::string> global_hf_keys{};   ///< in the order in which they are put together
  std::optional<int> fused_dim{};              ///< along which, if there are several
  Shape global_shape{};                        ///< padding included
  std::optional<Shape> origin_shape{};         ///< without padding, if there is any
  SpecPadding padding{};                       ///< where it stands
  std::vector<DTensorPlacement> placements{};  ///< one per axis of the mesh
};
/// The spec of a tensor anew, to be called whenever its layout changed: built, cut by TP, cut by
/// FSDP, padded. Its shards are along the axes of `mesh`: bind it to a rank.
/// Errors: usage as cuts_of and LoadSpec::make, and bind's for a cut that does not divide.
LoadSpec derive_spec(const CurrentLayout& layout, const Mesh& mesh);

}  // namespace weightloom
