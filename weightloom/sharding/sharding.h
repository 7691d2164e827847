// Sharding: how one tensor is spread over a mesh, as steps in carving order.
//
// The order of the steps is data: each acts on what the ones before it left, as DTensor's
// placements act in mesh order, or FSDP on what TP has cut. An axis that no step names holds
// replicas. What a rank holds is, for each dim, a list of segments of the whole dim
// (layout/segments.h); loading, saving, merging and proving all ask for these.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/layout/cut.h"
#include "weightloom/layout/layout.h"
#include "weightloom/layout/segments.h"
#include "weightloom/sharding/mesh.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Cuts a dim along an axis of the mesh.
struct CutStep {
  std::string axis;  ///< of the mesh
  int dim = 0;       ///< of the tensor
  Cut cut{};         ///< the rule
  int64_t copies =
      1;  ///< so many neighbouring coordinates hold one part (fewer KV heads than ranks)

  friend bool operator==(const CutStep&, const CutStep&) = default;
};

/// Pads a dim at the tail of each of `groups` equal groups that stand in it, to a multiple. Before
/// the cuts it pads the whole tensor (`groups` = 1: its tail; = number of keys: each key); after a
/// cut it pads each part.
struct PadStep {
  int dim = 0;           ///< of the tensor
  int64_t multiple = 1;  ///< each group becomes the next multiple of this
  int64_t groups = 1;    ///< equal groups, each padded at its tail
  int64_t least = 0;     ///< a group gets at least so many rows

  friend bool operator==(const PadStep&, const PadStep&) = default;
};

/// Only the ranks at these coordinates of an axis have the tensor (a pipeline stage).
struct StageStep {
  std::string axis;                  ///< of the mesh
  std::vector<int64_t> coordinates;  ///< along it

  friend bool operator==(const StageStep&, const StageStep&) = default;
};

/// One step of a sharding.
using ShardingStep = std::variant<CutStep, PadStep, StageStep>;

/// How one tensor is spread; without steps every rank holds it whole.
struct Sharding {
  std::string mesh{};                 ///< which of the meshes; "": the first
  std::vector<ShardingStep> steps{};  ///< in carving order

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// What a rank holds of a tensor: for each dim the stretches of it, in order.
using LocalPart = std::vector<Segments>;

/// Shape of the tensor that a rank holds.
Shape local_shape(const LocalPart& part);

/// What `rank` holds of a tensor of `shape`; nothing if it stands on another stage.
/// Errors: usage if a step names an axis, dim or coordinate that is not there, or its rule does not
/// fit the size that is left, with the numbers.
std::optional<LocalPart> local_part(const Sharding& sharding, const MeshSet& meshes,
                                    const Shape& shape, int64_t rank);

/// The ranks, ascending, of which each is the first to hold its part: the others hold replicas of
/// theirs.
std::vector<int64_t> owners(const Sharding& sharding, const MeshSet& meshes);
/// The first rank that holds the part that `rank` holds.
int64_t owner_of(const Sharding& sharding, const MeshSet& meshes, int64_t rank);

/// A tensor of `shape`, put together from what ranks hold: the inverse of cutting. `sources[rank]`
/// is the place of the tensor that this rank holds; only owners' are read, and of rows that a table
/// gives to several parts the first's.
/// Shape: `shape`.   Law: with x cut into local tensors, apply(merged, locals) = x.
/// Errors: as local_part; checkpoint if the parts do not make up the tensor: which element is held
/// by none or by two.
Layout merged(const Sharding& sharding, const MeshSet& meshes, const Shape& shape,
              std::span<const SourceId> sources);

}  // namespace weightloom
