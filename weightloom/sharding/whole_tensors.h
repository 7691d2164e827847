// The tensors of a checkpoint, whole: those of a sharded folder are put together from the parts
// that its ranks hold.
// Thread safety: values, pure functions but for reading the manifest.
#pragma once

#include <optional>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/sharding/layout_manifest.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Two stored tensors that must be equal: ranks that hold the same part.
struct Replica {
  SourceId owner = 0;  ///< the one that is read, by its place in Checkpoint::tensors()
  SourceId copy = 0;   ///< the other

  friend bool operator==(const Replica&, const Replica&) = default;
};

/// What whole_tensors() gives.
struct WholeTensors {
  /// Sorted by name; layouts over Checkpoint::tensors().
  std::vector<NamedLayout> tensors;
  std::vector<Replica> replicas{};           ///< parts that are not read
  std::optional<LayoutManifest> manifest{};  ///< of a sharded folder that has one
  std::vector<Finding> findings{};           ///< as errors, all at once
};

/// Of an ordinary checkpoint the tensors as they are. Of a sharded folder each tensor that the
/// manifest names, or that the shards' metadata describe; what is wrong stands in the findings:
/// `missing_rank` (a rank's file is not there), `missing_part`, `unknown_part` (a tensor that the
/// manifest does not name, or that the rank should not have), `part_mismatch` (shape or dtype), and
/// `bad_sharding` (placements that do not fit, or parts that do not make up a tensor).
/// Errors: format if the manifest or a shard's metadata are broken; io.
WholeTensors whole_tensors(const Syscalls& calls, const Checkpoint& checkpoint);

}  // namespace weightloom
