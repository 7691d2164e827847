// Verify: is a checkpoint whole, and are two the same?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One way in which two checkpoints differ: code `only_in_a`, `only_in_b`, `dtype`, `shape` or
/// `values` (with the first differing byte).
struct Difference {
  std::string tensor;   ///< its name
  std::string code;     ///< one of the words above
  std::string message;  ///< a whole sentence with numbers
};

/// What was found of one or two checkpoints.
struct VerifyReport {
  bool equal = true;                    ///< no differences
  int64_t tensors = 0;                  ///< compared, or read
  int64_t bytes = 0;                    ///< of these tensors
  bool has_checksums = false;           ///< of every tensor, compared
  std::vector<Difference> differences;  ///< by tensor
  std::vector<Finding> findings;        ///< of the checkpoint, or of bringing B to A's layout
};

/// Reads every byte of a checkpoint whose headers and index agree (else it could not be opened),
/// of a sharded folder also replicas, which must be equal (difference `replicas_differ`),
/// and compares the digests of its tensors with the checksum file, where there is one
/// (checksums.h). Errors: io; format if the checksum file is broken; plan if the parts of a sharded
/// folder do not make up whole tensors.
VerifyReport verify_readable(const Syscalls& calls, const Checkpoint& a, const RunOptions& run);

/// Brings B to A's layout (`selection.to`, else A's own side) and, with `selection.dtype`, to that
/// dtype, and compares bit for bit. A cast loses bits, so a checkpoint that was cast is A, and what
/// it was cast from is B. If A is a sharded folder, each rank's tensors are compared with what that
/// rank has of B's.
/// Errors: plan if B cannot be brought there; io.
VerifyReport verify_equal(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                          const Selection& selection, const Registry& registry,
                          const RunOptions& run);

}  // namespace weightloom
