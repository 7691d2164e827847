// Replicas in a sharded folder: ranks that hold the same part must hold the same bytes.
// Thread safety: pure functions but for reading files.
#pragma once

#include <span>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/sharding/whole_tensors.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Compares each copy with its owner's part, byte by byte, within the budget. An error
/// `replicas_differ` for each copy that differs, with both files and the first byte.
/// Errors: io, not_found, checkpoint, cancelled.
std::vector<Finding> compare_replicas(const Syscalls& calls, const Checkpoint& checkpoint,
                                      std::span<const Replica> replicas, const RunOptions& run);
/// Errors: checkpoint with all findings if replicas differ; as compare_replicas.
void refuse_differing_replicas(const Syscalls& calls, const Checkpoint& checkpoint,
                               std::span<const Replica> replicas, const RunOptions& run);

}  // namespace weightloom
