#include "weightloom/plan/cost.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

namespace weightloom {
namespace {

int64_t bytes_from_sources(const ProgramTarget& target) {
  int64_t bytes = 0;
  for (const Region& region : target.regions) bytes += region.is_pad() ? 0 : volume(region);
  return bytes;
}

int64_t bytes_in(const CopyProgram& program, const Piece& piece) {
  const ProgramTarget& target = program.targets()[static_cast<size_t>(piece.target)];
  int64_t bytes = 0;
  for (const Region& region : clip_target(target, piece.begin_bytes, piece.end_bytes)) {
    bytes += region.is_pad() ? 0 : volume(region);
  }
  return bytes;
}

/// Adds what a tile reads beyond what it needs, and gives its memory.
int64_t add_short_runs(const CopyProgram& program, const Tile& tile, const ScheduleLimits& limits,
                       Cost& cost) {
  const TileReads reads = read_tile(program, tile, limits);
  int64_t needed = 0;
  for (const Piece& piece : tile.pieces) needed += bytes_in(program, piece);
  const int64_t excess = reads.bytes_read - needed;
  cost.bytes_read += excess;
  cost.target_bytes_read[static_cast<size_t>(tile.pieces.front().target)] += excess;
  return tile.size_bytes + reads.staging_bytes;
}

}  // namespace

double Cost::amplification() const noexcept {
  return bytes_needed == 0 ? 1.0
                           : static_cast<double>(bytes_read) / static_cast<double>(bytes_needed);
}

Cost cost_of(const CopyProgram& program, std::span<const Tile> tiles, const ScheduleLimits& limits,
             int threads) {
  Cost cost;
  std::unordered_set<int32_t> files;
  for (const ProgramTarget& target : program.targets()) {
    cost.target_bytes_read.push_back(bytes_from_sources(target));
    cost.bytes_needed += cost.target_bytes_read.back();
    for (const Region& region : target.regions) {
      if (!region.is_pad()) {
        files.insert(program.sources()[static_cast<size_t>(region.source)].file);
      }
    }
  }
  cost.bytes_read = cost.bytes_needed;
  cost.bytes_written = program.target_bytes();
  cost.regions = program.region_count();
  cost.files = static_cast<int64_t>(files.size());
  cost.tiles = static_cast<int64_t>(tiles.size());
  std::vector<int64_t> memory;
  for (const Tile& tile : tiles) {
    memory.push_back(tile.long_runs ? tile.size_bytes
                                    : add_short_runs(program, tile, limits, cost));
  }
  const size_t workers = std::min(memory.size(), static_cast<size_t>(std::max(threads, 1)));
  std::partial_sort(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(workers),
                    memory.end(), std::greater<>());
  for (size_t i = 0; i < workers; ++i) cost.working_memory_bytes += memory[i];
  return cost;
}

}  // namespace weightloom
