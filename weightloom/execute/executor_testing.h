// For tests: the executor's tiles, collected into the targets' bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "weightloom/execute/executor.h"
#include "weightloom/plan/interpret.h"
#include "weightloom/plan/schedule.h"

namespace weightloom::testing {

/// Each target in a space of its own.
inline std::vector<Placement> own_spaces(const CopyProgram& program) {
  std::vector<Placement> placements;
  for (size_t i = 0; i < program.targets().size(); ++i) {
    placements.push_back({static_cast<int32_t>(i), 0});
  }
  return placements;
}

/// Takes tiles in lent buffers.
class CollectSink : public TileSink {
 public:
  explicit CollectSink(const CopyProgram& program) {
    for (const ProgramTarget& target : program.targets()) {
      targets_.emplace_back(static_cast<size_t>(target.size_bytes), std::byte{0xee});
    }
  }

  std::span<std::byte> memory_for(const Tile&) override { return {}; }

  void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    delivered_.push_back(index);
    for (const Piece& piece : tile.pieces) {
      const auto from = bytes.subspan(static_cast<size_t>(piece.at_bytes),
                                      static_cast<size_t>(piece.end_bytes - piece.begin_bytes));
      std::copy(from.begin(), from.end(),
                targets_[static_cast<size_t>(piece.target)].begin() + piece.begin_bytes);
    }
  }

  const std::vector<Bytes>& targets() const { return targets_; }
  const std::vector<size_t>& delivered() const { return delivered_; }  // in order of delivery

 private:
  std::mutex mutex_;
  std::vector<Bytes> targets_;
  std::vector<size_t> delivered_;
};

/// The bytes of each target, as the executor makes them.
inline std::vector<Bytes> executed(const Syscalls& calls, const CopyProgram& program,
                                   const ScheduleLimits& limits, const RunOptions& options) {
  CollectSink sink(program);
  const std::vector<Tile> tiles = make_schedule(program, own_spaces(program), limits);
  execute(calls, program, tiles, 0, limits, sink, options);
  return sink.targets();
}

}  // namespace weightloom::testing
