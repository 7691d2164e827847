// What a program costs, known before a byte moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Units: bytes where a name says so, else counts.
struct Cost {
  int64_t bytes_needed = 0;   ///< source bytes that reach a target
  int64_t bytes_read = 0;     ///< source bytes that the schedule reads
  int64_t bytes_written = 0;  ///< target bytes
  int64_t regions = 0;        ///< of the program
  int64_t files = 0;          ///< source files opened
  int64_t tiles = 0;          ///< of the schedule
  /// Tiles and staging of all workers at once; results in memory are not counted.
  int64_t working_memory_bytes = 0;
  std::vector<int64_t> target_bytes_read;  ///< per target

  /// bytes_read / bytes_needed, 1 when nothing is needed.
  double amplification() const noexcept;
};

/// Counts what the executor would do with these tiles on `threads` workers.
Cost cost_of(const CopyProgram& program, std::span<const Tile> tiles, const ScheduleLimits& limits,
             int threads);
/// As cost_of the tiles of make_schedule, without keeping them.
Cost cost_of(const CopyProgram& program, std::span<const Placement> placements,
             const ScheduleLimits& limits, int threads);

}  // namespace weightloom
