#include "weightloom/plan/cost.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace weightloom {
namespace {

/// Source bytes of a part of a target.
int64_t bytes_from_sources(const CopyProgram& program, const ProgramTarget& target,
                           std::span<const Region> regions) {
  int64_t bytes = 0;
  for (const Region& region : regions) {
    if (region.is_pad()) continue;
    bytes += volume(region) * program.type_of(target, region).source_bytes();
  }
  return bytes;
}

/// What a program costs whatever its tiles are.
Cost cost_without_tiles(const CopyProgram& program) {
  Cost cost;
  std::vector<bool> opened(program.files().size());
  cost.target_bytes_read.reserve(program.targets().size());
  for (const ProgramTarget& target : program.targets()) {
    cost.target_bytes_read.push_back(bytes_from_sources(program, target, target.regions));
    cost.bytes_needed += cost.target_bytes_read.back();
    for (const Region& region : target.regions) {
      if (region.is_pad()) continue;
      const ProgramSource& source = program.sources()[static_cast<size_t>(region.source)];
      opened[static_cast<size_t>(source.file)] = true;
    }
  }
  cost.bytes_read = cost.bytes_needed;
  cost.bytes_written = program.target_bytes();
  cost.regions = program.region_count();
  cost.files = std::count(opened.begin(), opened.end(), true);
  return cost;
}

/// Adds tiles up.
class CostMeter {
 public:
  CostMeter(const CopyProgram& program, const ScheduleLimits& limits, int threads)
      : program_(program),
        limits_(limits),
        workers_(static_cast<size_t>(std::max(threads, 1))),
        cost_(cost_without_tiles(program)) {}

  void add(const Tile& tile) {
    ++cost_.tiles;
    keep_if_large(tile.long_runs ? tile.size_bytes : add_short_runs(tile));
  }

  Cost finish() && {
    for (; !largest_.empty(); largest_.pop()) cost_.working_memory_bytes += largest_.top();
    return std::move(cost_);
  }

 private:
  /// Adds what a tile reads beyond what it needs, or below it where targets share what is read, and
  /// gives its memory.
  int64_t add_short_runs(const Tile& tile) {
    const TileReads reads = read_tile(program_, tile, limits_);
    const int64_t excess = reads.bytes_read - reads.bytes_needed;
    cost_.bytes_read += excess;
    if (excess != 0) share_out(excess, tile);
    return tile.size_bytes + reads.staging_bytes;
  }

  /// Among the targets of a tile, by what it holds of each.
  void share_out(int64_t bytes, const Tile& tile) {
    int64_t left_to_make = tile.made_bytes();
    for (const Piece& piece : tile.pieces) {
      const int64_t made = piece.end_bytes - piece.begin_bytes;
      const auto share =
          static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(made) /
                               static_cast<double>(left_to_make));
      cost_.target_bytes_read[static_cast<size_t>(piece.target)] += share;
      bytes -= share;
      left_to_make -= made;
    }
  }

  /// At worst all workers are at the largest tiles at once.
  void keep_if_large(int64_t tile_memory_bytes) {
    if (largest_.size() == workers_) {
      if (tile_memory_bytes <= largest_.top()) return;
      largest_.pop();
    }
    largest_.push(tile_memory_bytes);
  }

  const CopyProgram& program_;
  const ScheduleLimits& limits_;
  const size_t workers_;
  Cost cost_;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> largest_;
};

}  // namespace

double Cost::amplification() const noexcept {
  return bytes_needed == 0 ? 1.0
                           : static_cast<double>(bytes_read) / static_cast<double>(bytes_needed);
}

Cost cost_of(const CopyProgram& program, std::span<const Tile> tiles, const ScheduleLimits& limits,
             int threads) {
  CostMeter meter(program, limits, threads);
  for (const Tile& tile : tiles) meter.add(tile);
  return std::move(meter).finish();
}

Cost cost_of(const CopyProgram& program, std::span<const Placement> placements,
             const ScheduleLimits& limits, int threads) {
  CostMeter meter(program, limits, threads);
  for_each_tile(program, placements, limits, [&](const Tile& tile) { meter.add(tile); });
  return std::move(meter).finish();
}

}  // namespace weightloom
