// The most memory that this process has had.
#pragma once

#include <cstdint>

#include "weightloom/base/syscalls.h"

namespace weightloom::cli {

/// Bytes resident at most since the program began; what is resident now where the system keeps no
/// record.
int64_t peak_resident_bytes(const Syscalls& calls);

}  // namespace weightloom::cli
