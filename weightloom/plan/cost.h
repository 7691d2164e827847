// What a program costs, known before a byte moves.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/program_form.h"
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

/// The sources in files that a target takes from, each once, in order of first use; of what is
/// computed, those that it is computed from.
std::vector<SourceId> stored_sources(const CopyProgram& program, const ProgramTarget& target);

/// What a target needs of each of the program's files, in bytes. What several of its regions are
/// computed from counts for each.
std::vector<int64_t> needed_by_file(const CopyProgram& program, const ProgramTarget& target);

/// What the tiles of a program cost beyond what any cut into tiles would.
struct TileCost {
  int64_t tiles = 0;                 ///< how many
  int64_t working_memory_bytes = 0;  ///< as in Cost
  int64_t excess_bytes = 0;          ///< read beyond what is needed; negative where targets share
  std::vector<std::pair<size_t, int64_t>> target_excess_bytes{};  ///< where it is not 0
};

/// Costs of many programs, such as those of all ranks: the tiles of each form are counted once, and
/// only the counts are kept. Thread safety: one thread at a time.
class CostCounter {
 public:
  /// Counts with these limits, on up to `threads` threads.
  CostCounter(const ScheduleLimits& limits, int threads) : limits_(limits), threads_(threads) {}

  /// Law: cost_of(program, placements, limits, threads).
  Cost cost_of(const CopyProgram& program, std::span<const Placement> placements);
  /// How many forms there were.
  size_t forms() const noexcept { return known_.size(); }

 private:
  ScheduleLimits limits_;
  int threads_;
  std::map<ProgramForm, TileCost> known_;
};

}  // namespace weightloom
