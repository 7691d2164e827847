// What comparisons of two checkpoints share.
#pragma once

#include <vector>

#include "weightloom/execute/executor.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/program.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// The files of a checkpoint, to be opened.
std::vector<ProgramFile> files_of(const Checkpoint& checkpoint);

/// The program that brings B to A's layout: to `selection.to`, else to the side that A is on, else,
/// where that cannot be told or names and shapes are equal already, B as it is. If A is a sharded
/// folder, the program makes what each rank has (Conversion::ranks).
/// Errors: plan if B cannot be brought there, and those of plan_conversion.
Conversion bring_to_layout_of(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                              Selection selection, const Registry& registry, int threads);

/// Runs a program with a space for each target; tiles are cut between elements.
RunStatistics run_targets_apart(const Syscalls& calls, const CopyProgram& program, TileSink& sink,
                                const RunOptions& run);

}  // namespace weightloom
