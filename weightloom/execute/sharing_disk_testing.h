// For tests: a disk that says it is btrfs, so that conversions let the kernel copy on it.
#pragma once

#include <cstdint>
#include <string>

#include "weightloom/base/forwarding_syscalls_testing.h"

namespace weightloom::testing {

class SharingDisk : public ForwardingSyscalls {
 public:
  using ForwardingSyscalls::ForwardingSyscalls;
  int64_t filesystem_type(const std::string&) const override { return 0x9123683E; }
};

}  // namespace weightloom::testing
