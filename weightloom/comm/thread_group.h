// Ranks that are threads of one process: the group for tests, for one machine, and for programs
// that embed the library without a launcher.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/comm/process_group.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One group, as each of its `ranks` threads sees it: thread i uses the i-th. Bytes are copied
/// once, from the sender's memory into the receiver's. Errors: usage if there is no rank.
std::vector<std::unique_ptr<ProcessGroup>> thread_groups(int64_t ranks);

/// Calls body(group) on `ranks` threads, one a rank, and returns when all are done.
/// Errors: what the first body to fail threw, as run_guarded gives it; the others are released.
void run_on_threads(int64_t ranks, const std::function<void(ProcessGroup&)>& body);

}  // namespace weightloom
