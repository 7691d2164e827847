// Load: a program's targets into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/arena.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Called when all bytes of target `index` are in place, from worker threads, never from two at
/// once.
using TargetComplete = std::function<void(size_t index)>;

/// How to load, and what to tell meanwhile.
struct LoadOptions {
  RunOptions run;           ///< threads, memory, progress, stop
  TargetComplete complete;  ///< may be empty
};

/// The targets of a program in one arena.
struct LoadedTensors {
  Arena arena;  ///< holds the tensors
  std::vector<std::span<std::byte>>
      tensors;                    ///< per target of the program, borrowing from the arena
  RunStatistics statistics;       ///< of the run
  std::vector<Finding> findings;  ///< values that casts made infinite, as reports
};

/// Loads into one arena of huge pages, each tensor aligned to 64 bytes.
/// Errors: io, not_found, cancelled; nothing is left behind.
LoadedTensors load(const Syscalls& calls, const CopyProgram& program, const LoadOptions& options);

/// The memory that load() loads into, not filled yet, without statistics and findings: so that a
/// target can be handed on as soon as it is complete.
/// Errors: no_space.
LoadedTensors allocate(const CopyProgram& program);
/// Fills what allocate() gave for this program; load() is the two together.
/// Errors: as load. After an error the contents are undefined.
void fill(const Syscalls& calls, const CopyProgram& program, LoadedTensors& tensors,
          const LoadOptions& options);

/// Loads into the caller's buffers, one per target, each of exactly its size in bytes.
/// cast_findings.h says in words what the statistics tell of casts.
/// Errors: as load, and usage if a size disagrees. After an error the buffers' contents are
/// undefined.
RunStatistics load_into(const Syscalls& calls, const CopyProgram& program,
                        std::span<const std::span<std::byte>> buffers, const LoadOptions& options);

}  // namespace weightloom
