// Which files a conversion writes: what the caller asks, and what follows from source and
// destination.
// Thread safety: values, pure functions but for reading files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the output is split into files, and what may happen to what is there.
struct OutputOptions {
  int64_t max_shard_bytes = 50'000'000'000;  ///< of tensor data in one file
  bool max_shard_given = false;              ///< else going back by a record reproduces its files
  std::optional<std::string> layout_from;    ///< a folder or index whose shard split is copied
  bool overwrite = false;                    ///< DST may exist and is replaced
  bool resume = false;                       ///< continue a killed run
  bool checksums = false;                    ///< write a digest of each tensor beside them
  bool compare_replicas = true;              ///< of a sharded source, before anything is written
};

/// True if the destination is one file: its name ends in ".safetensors".
bool is_single_file(const std::string& destination);

/// The files that `conversion`, planned from `source`, is written to: one file where the
/// destination is one; else the split asked for; else the original's files when going back by a
/// record; else the source's own where the layout stays; else filled by size.
/// Errors: usage, format.
ShardLayout output_layout(const Syscalls& calls, const Checkpoint& source,
                          const Conversion& conversion, const std::string& destination,
                          const OutputOptions& output);

}  // namespace weightloom
