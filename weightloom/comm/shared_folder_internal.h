// A checkpoint's folder that ranks build together: rank 0 makes it and puts it in place.
//
// Until then, and after any failure, the destination is as it was. Calls are collective.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "weightloom/base/error.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/comm/process_group.h"
#include "weightloom/comm/shared_files_internal.h"
#include "weightloom/execute/work_folder_internal.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom {

/// What stands in the folder, and who writes it.
struct SharedContent {
  const ShardLayout& layout;                ///< its tensor files
  int64_t tensor_bytes = 0;                 ///< that all ranks write together
  bool overwrite = false;                   ///< replace what stands there
  std::function<void(SharedFiles&)> write;  ///< on every rank: its bytes; collective
  /// On rank 0, when all bytes are there: what stands beside the tensors, the index last.
  std::function<void(const WorkFolder&)> complete;
};

/// What became of it.
struct SharedOutcome {
  int64_t bytes_written = 0;         ///< by this rank
  std::optional<Finding> left_over;  ///< on rank 0: the work folder could not be removed
};

/// Builds the folder `destination`. Errors, on all ranks: usage if it names a single file; exists,
/// permission, not_found, no_space, io; io if bytes are missing; what `write` and `complete` throw.
SharedOutcome build_shared_folder(ProcessGroup& group, const Syscalls& calls,
                                  const std::string& destination, const SharedContent& content);

}  // namespace weightloom
