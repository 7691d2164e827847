// For tests: a file seam that waits for no disk.
#pragma once

#include "weightloom/base/forwarding_syscalls.h"

namespace weightloom {

/// Waits for no disk, and says it is ext4 whatever it is: a test that runs thousands of conversions
/// leaves it to FaultSyscalls to keep account of what would be durable.
class UnsyncedSyscalls final : public ForwardingSyscalls {
 public:
  int fsync(int) const override { return 0; }
  int fdatasync(int) const override { return 0; }
  int start_writeback(int, int64_t, int64_t) const override { return 0; }
  int64_t filesystem_type(const std::string&) const override { return 0xEF53; }
};

}  // namespace weightloom
