// How much memory and how many threads a run may take when the caller does not say.
#pragma once

#include <cstdint>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// 1 GiB, or an eighth of what the process's cgroups (v2, v1) or the machine have, if that is less.
int64_t default_memory_budget(const Syscalls& calls);
/// 4, or the cores there are if more: workers wait for disks as much as they copy.
int default_threads() noexcept;
/// Bytes resident in this process now; 0 where the system does not say.
int64_t resident_bytes(const Syscalls& calls);

}  // namespace weightloom
