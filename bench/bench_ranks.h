// Runs a body on the ranks of a program: the threads of a process, or the processes of MPI's
// launcher, as the program is linked.
#pragma once

#include <functional>

#include "weightloom/comm/process_group.h"

namespace weightloom {

/// True where all ranks stand in this process.
extern const bool kRanksShareProcess;

/// Calls body(group) on every rank that stands in this process; of threads there are four.
/// Errors: what a body threw, as run_guarded gives it.
void on_ranks(const std::function<void(ProcessGroup&)>& body);

}  // namespace weightloom
