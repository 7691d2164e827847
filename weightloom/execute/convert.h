// Convert: a checkpoint becomes a folder or a file in another layout, durable and in one step.
//
// Everything is built in a work folder beside DST (`.DST.weightloom-work`), synced, and put in
// place by one rename (an exchange when DST exists). Until then DST is as it was; after a kill it
// is the old or the new one, whole. A journal in the work folder lets a run with `resume` continue
// where a killed one stood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the output is split, and what may happen to what is there.
struct OutputOptions {
  int64_t max_shard_bytes = 50'000'000'000;  ///< of tensor data in one file
  bool max_shard_given = false;              ///< else going back by a record reproduces its files
  std::optional<std::string> layout_from;    ///< a folder or index whose shard split is copied
  bool overwrite = false;                    ///< DST may exist and is replaced
  bool resume = false;                       ///< continue a killed run
};

/// What a conversion did.
struct ConvertReport {
  std::vector<std::string> files;  ///< safetensors files written, in order
  int64_t targets = 0;             ///< tensors written
  int64_t bytes_needed = 0;        ///< source bytes that reach a target
  int64_t bytes_read = 0;          ///< from files
  int64_t bytes_written = 0;       ///< of targets
  int64_t peak_working_bytes = 0;  ///< tiles and staging of all workers at once
  int64_t resumed_bytes = 0;       ///< of targets that an earlier run had made
  std::vector<Finding> findings;   ///< the conversion's and the output's reports
};

/// The files that `conversion` would be written to. A destination that ends in ".safetensors" is
/// one file.
/// Errors: usage, format.
ShardLayout output_layout(const Syscalls& calls, const Conversion& conversion,
                          const std::string& destination, const OutputOptions& output);

/// Errors: plan if the conversion is refused; exists, permission, no_space, io, cancelled. After
/// any of them DST is as it was.
ConvertReport convert(const Syscalls& calls, const Checkpoint& source, const Conversion& conversion,
                      bool lenient, const std::string& destination, const OutputOptions& output,
                      const RunOptions& run);

}  // namespace weightloom
