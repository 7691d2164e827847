#include "weightloom/plan/cost.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "weightloom/plan/node_boxes_internal.h"
#include "weightloom/plan/tile_shift_internal.h"

namespace weightloom {
namespace {

/// Source bytes of a target.
int64_t bytes_from_sources(const CopyProgram& program, const ProgramTarget& target) {
  if (target.is_computed) return target.needed_bytes;
  int64_t bytes = 0;
  for (const Region& region : target.regions) {
    if (region.is_pad()) continue;
    bytes += volume(region) * program.type_of(target, region).source_bytes();
  }
  return bytes;
}

/// Walks from a target to the files: through each node once.
class StoredSources {
 public:
  explicit StoredSources(const CopyProgram& program) : program_(program) {}

  void add(const ProgramTarget& target) {
    for (const Region& region : target.regions) {
      if (region.is_pad()) continue;
      const ProgramSource& source = program_.source_of(region);
      if (!source.is_computed()) {
        uses_.emplace_back(region.source, uses_.size());
      } else if (nodes_.insert(source.node).second) {
        const ProgramNode& node = program_.nodes()[static_cast<size_t>(source.node)];
        for (const ProgramTarget& input : node.inputs) add(input);
      }
    }
  }

  /// Each once, by its first use.
  std::vector<SourceId> take() && {
    std::ranges::sort(uses_);
    const auto repeats = std::ranges::unique(uses_, {}, &std::pair<SourceId, size_t>::first);
    uses_.erase(repeats.begin(), repeats.end());
    std::ranges::sort(uses_, {}, &std::pair<SourceId, size_t>::second);
    std::vector<SourceId> sources;
    sources.reserve(uses_.size());
    for (const auto& [source, place] : uses_) sources.push_back(source);
    return sources;
  }

 private:
  const CopyProgram& program_;
  std::vector<std::pair<SourceId, size_t>> uses_;  // with their order
  std::set<int32_t> nodes_;                        // walked through
};

/// What a program costs whatever its tiles are.
Cost cost_without_tiles(const CopyProgram& program) {
  Cost cost;
  std::vector<bool> opened(program.files().size());
  cost.target_bytes_read.reserve(program.targets().size());
  for (const ProgramTarget& target : program.targets()) {
    cost.target_bytes_read.push_back(bytes_from_sources(program, target));
    cost.bytes_needed += cost.target_bytes_read.back();
    for (const SourceId source : stored_sources(program, target)) {
      opened[static_cast<size_t>(program.sources()[static_cast<size_t>(source)].file)] = true;
    }
  }
  cost.bytes_read = cost.bytes_needed;
  cost.bytes_written = program.target_bytes();
  cost.regions = program.region_count();
  cost.files = std::count(opened.begin(), opened.end(), true);
  return cost;
}

// Tiles of a target differ in size by a row, and where they begin in a region.
constexpr size_t kRecentTiles = 8;

/// What counts of a tile's reads.
struct ReadCounts {
  int64_t excess_bytes = 0;  // beyond what is needed
  int64_t staging_bytes = 0;
};

/// Adds tiles up.
class TileMeter {
 public:
  TileMeter(const CopyProgram& program, const ScheduleLimits& limits, int threads)
      : program_(program),
        limits_(limits),
        workers_(static_cast<size_t>(std::max(threads, 1))),
        excess_(program.targets().size()) {}

  void add(const Tile& tile) {
    ++cost_.tiles;
    keep_if_large(tile.long_runs ? tile.size_bytes : add_short_runs(tile));
  }

  TileCost finish() && {
    for (; !largest_.empty(); largest_.pop()) cost_.working_memory_bytes += largest_.top();
    for (size_t i = 0; i < excess_.size(); ++i) {
      if (excess_[i] != 0) cost_.target_excess_bytes.emplace_back(i, excess_[i]);
    }
    return std::move(cost_);
  }

 private:
  /// Adds what a tile reads beyond what it needs, or below it where targets share what is read, and
  /// gives its memory.
  int64_t add_short_runs(const Tile& tile) {
    const ReadCounts counts = counts_of(tile);
    cost_.excess_bytes += counts.excess_bytes;
    if (counts.excess_bytes != 0) share_out(counts.excess_bytes, tile);
    return tile.size_bytes + counts.staging_bytes;
  }

  /// Of read_tile; of tiles that are like one of the last ones, what that one has.
  ReadCounts counts_of(const Tile& tile) {
    for (const auto& [other, counts] : recent_) {
      if (is_shifted(program_, other, tile)) return counts;
    }
    const TileReads reads = read_tile(program_, tile, limits_);
    const ReadCounts counts{reads.bytes_read - reads.bytes_needed, reads.staging_bytes};
    if (recent_.size() < kRecentTiles) {
      recent_.emplace_back(tile, counts);
    } else {
      recent_[oldest_++ % kRecentTiles] = {tile, counts};
    }
    return counts;
  }

  /// Among the targets of a tile, by what it holds of each.
  void share_out(int64_t bytes, const Tile& tile) {
    int64_t left_to_make = tile.made_bytes();
    for (const Piece& piece : tile.pieces) {
      const int64_t made = piece.end_bytes - piece.begin_bytes;
      const auto share =
          static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(made) /
                               static_cast<double>(left_to_make));
      excess_[static_cast<size_t>(piece.target)] += share;
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
  std::vector<int64_t> excess_;                      // by target
  std::vector<std::pair<Tile, ReadCounts>> recent_;  // that were read, and differ
  size_t oldest_ = 0;                                // of recent_, where it is full
  TileCost cost_;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> largest_;
};

TileCost tile_cost_of(const CopyProgram& program, std::span<const Placement> placements,
                      const ScheduleLimits& limits, int threads) {
  TileMeter meter(program, limits, threads);
  for_each_tile(program, placements, limits, [&](const Tile& tile) { meter.add(tile); });
  return std::move(meter).finish();
}

Cost with_tiles(Cost cost, const TileCost& tiles) {
  cost.bytes_read += tiles.excess_bytes;
  cost.tiles = tiles.tiles;
  cost.working_memory_bytes = tiles.working_memory_bytes;
  for (const auto& [target, bytes] : tiles.target_excess_bytes) {
    cost.target_bytes_read[target] += bytes;
  }
  return cost;
}

}  // namespace

double Cost::amplification() const noexcept {
  return bytes_needed == 0 ? 1.0
                           : static_cast<double>(bytes_read) / static_cast<double>(bytes_needed);
}

std::vector<SourceId> stored_sources(const CopyProgram& program, const ProgramTarget& target) {
  StoredSources sources(program);
  sources.add(target);
  return std::move(sources).take();
}

std::vector<int64_t> needed_by_file(const CopyProgram& program, const ProgramTarget& target) {
  std::vector<int64_t> bytes(program.files().size());
  for (const NeededBytes& needed : needed_of_sources(program, target)) {
    const ProgramSource& source = program.sources()[static_cast<size_t>(needed.source)];
    bytes[static_cast<size_t>(source.file)] += needed.bytes;
  }
  return bytes;
}

Cost cost_of(const CopyProgram& program, std::span<const Tile> tiles, const ScheduleLimits& limits,
             int threads) {
  TileMeter meter(program, limits, threads);
  for (const Tile& tile : tiles) meter.add(tile);
  return with_tiles(cost_without_tiles(program), std::move(meter).finish());
}

Cost cost_of(const CopyProgram& program, std::span<const Placement> placements,
             const ScheduleLimits& limits, int threads) {
  return with_tiles(cost_without_tiles(program),
                    tile_cost_of(program, placements, limits, threads));
}

Cost CostCounter::cost_of(const CopyProgram& program, std::span<const Placement> placements) {
  const ProgramForm form = form_of(program, placements);
  auto known = known_.find(form);
  if (known == known_.end()) {
    known = known_.emplace(form, tile_cost_of(program, placements, limits_, threads_)).first;
  }
  return with_tiles(cost_without_tiles(program), known->second);
}

}  // namespace weightloom
