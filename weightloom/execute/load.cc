#include "weightloom/execute/load.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/source_order_internal.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

constexpr int64_t kTensorAlignmentBytes = 64;

/// Makes tiles of one part in place in memory, copies parts of others there, and tells when a
/// target is complete.
class MemorySink : public TileSink {
 public:
  /// `spaces[i]` is the memory of space i.
  MemorySink(const CopyProgram& program, std::span<const std::span<std::byte>> spaces,
             const TargetComplete& complete)
      : spaces_(spaces), complete_(complete), missing_(program.targets().size()) {
    for (size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = program.targets()[i].size_bytes;
      if (missing_[i] == 0 && complete_) complete_(i);
    }
  }

  std::span<std::byte> memory_for(const Tile& tile) override {
    if (tile.parts.size() > 1) return {};
    return memory_of(tile.parts.front());
  }

  void deliver(size_t, const Tile& tile, std::span<const std::byte> bytes) override {
    if (tile.parts.size() > 1) {
      for (const TilePart& part : tile.parts) {
        std::memcpy(memory_of(part).data(), bytes.data() + part.at_bytes,
                    static_cast<size_t>(part.size_bytes));
      }
    }
    if (!complete_) return;
    const std::lock_guard lock(mutex_);
    for (const Piece& piece : tile.pieces) {
      const auto target = static_cast<size_t>(piece.target);
      missing_[target] -= piece.end_bytes - piece.begin_bytes;
      if (missing_[target] == 0) complete_(target);
    }
  }

 private:
  std::span<std::byte> memory_of(const TilePart& part) const {
    return spaces_[static_cast<size_t>(part.space)].subspan(static_cast<size_t>(part.begin_bytes),
                                                            static_cast<size_t>(part.size_bytes));
  }

  std::span<const std::span<std::byte>> spaces_;
  const TargetComplete& complete_;
  std::mutex mutex_;
  std::vector<int64_t> missing_;
};

RunStatistics load_spaces(const Syscalls& calls, const CopyProgram& program,
                          std::span<const std::span<std::byte>> spaces,
                          std::span<const Placement> placements, const LoadOptions& options) {
  const ScheduleLimits limits = limits_for(options.run.memory_budget_bytes, options.run.threads);
  std::vector<Tile> tiles = make_schedule(program, placements, limits);
  sort_by_source(program, tiles);
  MemorySink sink(program, spaces, options.complete);
  return execute(calls, program, tiles, 0, limits, sink, options.run);
}

/// The targets one after another, aligned.
struct OneSpace {
  std::vector<Placement> placements;
  int64_t size_bytes = 0;
};

OneSpace in_one_space(const CopyProgram& program) {
  OneSpace space;
  space.placements.reserve(program.targets().size());
  for (const ProgramTarget& target : program.targets()) {
    space.placements.push_back({0, space.size_bytes});
    space.size_bytes = round_up(space.size_bytes + target.size_bytes, kTensorAlignmentBytes);
  }
  return space;
}

}  // namespace

LoadedTensors allocate(const CopyProgram& program) {
  const OneSpace space = in_one_space(program);
  LoadedTensors result{Arena(space.size_bytes), {}, {}, {}};
  for (size_t i = 0; i < space.placements.size(); ++i) {
    result.tensors.push_back(
        result.arena.bytes().subspan(static_cast<size_t>(space.placements[i].offset_bytes),
                                     static_cast<size_t>(program.targets()[i].size_bytes)));
  }
  return result;
}

void fill(const Syscalls& calls, const CopyProgram& program, LoadedTensors& tensors,
          const LoadOptions& options) {
  const std::span<std::byte> space = tensors.arena.bytes();
  tensors.statistics =
      load_spaces(calls, program, {&space, 1}, in_one_space(program).placements, options);
  tensors.findings = cast_findings(program, tensors.statistics);
}

LoadedTensors load(const Syscalls& calls, const CopyProgram& program, const LoadOptions& options) {
  LoadedTensors result = allocate(program);
  fill(calls, program, result, options);
  return result;
}

RunStatistics load_into(const Syscalls& calls, const CopyProgram& program,
                        std::span<const std::span<std::byte>> buffers, const LoadOptions& options) {
  if (buffers.size() != program.targets().size()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} buffers for {} targets", buffers.size(), program.targets().size()));
  }
  std::vector<Placement> placements;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ProgramTarget& target = program.targets()[i];
    if (static_cast<int64_t>(buffers[i].size()) != target.size_bytes) {
      throw Error(ErrorCode::usage, fmt::format("the buffer for '{}' has {} bytes, needed {}",
                                                target.name, buffers[i].size(), target.size_bytes));
    }
    placements.push_back({static_cast<int32_t>(i), 0});
  }
  return load_spaces(calls, program, buffers, placements, options);
}

}  // namespace weightloom
