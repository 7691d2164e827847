// The executor: makes each tile of a schedule and hands it to a sink. Load, convert and verify are
// this with other sinks.
#pragma once

#include <cstddef>
#include <span>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Where finished tiles go.
/// Thread safety: called concurrently, for different tiles.
class TileSink {
 public:
  virtual ~TileSink() = default;
  /// The memory to make a tile in, all its parts and what is between them; empty: the executor
  /// lends a buffer.
  virtual std::span<std::byte> memory_for(const Tile& tile) = 0;
  /// The bytes of tile `index`, complete.
  virtual void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) = 0;
  /// A tile failed and will not come: no one may go on waiting for it.
  virtual void abandon() noexcept {}
};

/// Makes tiles [first, tiles.size()), in ascending order, on options.threads workers.
/// Law: each tile's bytes are those of interpret(program).
/// Errors: what reading, the sink or the progress callback throw; cancelled.
RunStatistics execute(const Syscalls& calls, const CopyProgram& program,
                      std::span<const Tile> tiles, size_t first, const ScheduleLimits& limits,
                      TileSink& sink, const RunOptions& options);

}  // namespace weightloom
