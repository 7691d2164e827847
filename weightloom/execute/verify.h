// Verify: is a checkpoint whole, and are two the same?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// One way in which two checkpoints differ: code `only_in_a`, `only_in_b`, `dtype`, `shape` or
/// `values` (with the first differing byte).
struct Difference {
  std::string tensor;
  std::string code;
  std::string message;
};

struct VerifyReport {
  bool equal = true;
  int64_t tensors = 0;  // compared, or read
  int64_t bytes = 0;
  bool has_checksums = false;           // of every tensor, compared
  std::vector<Difference> differences;  // by tensor
  std::vector<Finding> findings;
};

/// Reads every byte of a checkpoint whose headers and index agree (else it could not be opened),
/// and compares the digests of its tensors with the checksum file, where there is one
/// (checksums.h). Errors: io; format if the checksum file is broken.
VerifyReport verify_readable(const Syscalls& calls, const Checkpoint& a, const RunOptions& run);

/// Brings B to A's layout (`selection.to`, else A's own side) and compares bit for bit.
/// Errors: plan if B cannot be brought there; io.
VerifyReport verify_equal(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                          const Selection& selection, const Registry& registry,
                          const RunOptions& run);

}  // namespace weightloom
