// Convert: a checkpoint becomes a folder or a file in another layout, durable and in one step.
//
// Everything is built in a work folder beside DST (`.DST.weightloom-work`), synced, and put in
// place by one rename (an exchange when DST exists). Until then DST is as it was; after a kill it
// is the old or the new one, whole. A journal in the work folder lets a run with `resume` continue
// where a killed one stood.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/output_layout.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a conversion did.
struct ConvertReport {
  std::vector<std::string> files;  ///< safetensors files of the output, in order
  int64_t files_written = 0;       ///< these three make up `files`
  int64_t files_linked = 0;        ///< hard links of the source's
  int64_t files_copied = 0;        ///< by the kernel
  int64_t targets = 0;             ///< tensors of the output
  int64_t target_bytes = 0;        ///< of these tensors
  int64_t bytes_needed = 0;        ///< source bytes that reach a target
  int64_t bytes_read = 0;          ///< for files that are written
  int64_t bytes_written = 0;       ///< of targets
  int64_t peak_working_bytes = 0;  ///< tiles and staging of all workers at once
  int64_t resumed_bytes = 0;       ///< of targets that an earlier run had made
  std::vector<Finding> findings;   ///< the conversion's and the output's reports
};

/// Errors: plan if the conversion is refused; checkpoint if replicas in a sharded source differ; usage, exists, permission, no_space, io, cancelled.
/// After any of them DST is as it was, but for an io that the folder above DST could not be made
/// durable: then DST is the new one. The message says when work is kept for `resume`.
ConvertReport convert(const Syscalls& calls, const Checkpoint& source, const Conversion& conversion,
                      bool lenient, const std::string& destination, const OutputOptions& output,
                      const RunOptions& run);

/// Bytes of disk space that `convert` takes for tensor files, if all files can be linked that are
/// the source's own.
/// Errors: as output_layout.
int64_t disk_bytes_needed(const Syscalls& calls, const Checkpoint& source,
                          const Conversion& conversion, const std::string& destination,
                          const OutputOptions& output);

}  // namespace weightloom
