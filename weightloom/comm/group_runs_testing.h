// Runs the body of a test on all ranks of a group of four: on threads, or, in the test program that
// the MPI launcher starts, on its processes. The same tests are compiled into both.
#pragma once

#include <cstdint>
#include <functional>

#include "weightloom/comm/process_group.h"

namespace weightloom::testing {

inline constexpr int64_t kTestRanks = 4;

/// Calls body(group) on every rank that stands in this process.
/// Errors: what a body threw, as run_guarded gives it.
void on_every_rank(const std::function<void(ProcessGroup&)>& body);

}  // namespace weightloom::testing
