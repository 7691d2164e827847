#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "weightloom/comm/save_division_internal.h"

namespace weightloom {
namespace {

/// A pad is whoever's.
constexpr int32_t kAnyone = -1;
/// What is left to a rank that holds it makes that rank's share larger by this part at most.
constexpr int64_t kSlackFraction = 8;

int32_t set_of(const Region& region, const SourceHolders& holders) {
  return region.is_pad() ? kAnyone : holders.of_source[static_cast<size_t>(region.source)];
}

/// Bytes of the target that a region fills without a gap, and how often.
struct TargetRuns {
  int64_t bytes = 0;
  size_t outer_axes = 0;  // that step from run to run
};

TargetRuns runs_of(const TileRegion& part) {
  TargetRuns runs{part.type.target_bytes(), part.region.axes.size()};
  for (; runs.outer_axes > 0; --runs.outer_axes) {
    const Axis& axis = part.region.axes[runs.outer_axes - 1];
    if (axis.target_stride != runs.bytes) break;
    runs.bytes *= axis.extent;
  }
  return runs;
}

/// Bytes of a tile that one set of ranks holds.
struct Stretch {
  int64_t begin = 0;
  int64_t end = 0;
  int32_t set = kAnyone;
};

void add_runs(const TileRegion& part, int32_t set, std::vector<Stretch>& stretches) {
  const TargetRuns runs = runs_of(part);
  std::vector<int64_t> count(runs.outer_axes, 0);
  int64_t at = part.region.target_offset;
  for (int64_t left = part.bytes() / runs.bytes; left > 0; --left) {
    stretches.push_back({at, at + runs.bytes, set});
    for (size_t i = runs.outer_axes; i-- > 0;) {
      const Axis& axis = part.region.axes[i];
      at += axis.target_stride;
      if (++count[i] < axis.extent) break;
      at -= axis.target_stride * axis.extent;
      count[i] = 0;
    }
  }
}

/// In order, neighbours of one set joined, pads with what stands before them.
std::vector<Stretch> joined(std::vector<Stretch> stretches) {
  std::ranges::sort(stretches, {}, &Stretch::begin);
  std::vector<Stretch> result;
  for (const Stretch& stretch : stretches) {
    const bool goes_on = !result.empty() && result.back().end == stretch.begin &&
                         (result.back().set == stretch.set || result.back().set == kAnyone ||
                          stretch.set == kAnyone);
    if (!goes_on) {
      result.push_back(stretch);
      continue;
    }
    result.back().end = stretch.end;
    if (result.back().set == kAnyone) result.back().set = stretch.set;
  }
  return result;
}

/// Bytes [begin, end) of a tile of one part, as a tile.
Tile part_of_tile(const Tile& tile, int64_t begin, int64_t end) {
  const TilePart& whole = tile.parts.front();
  Tile result;
  result.parts = {{whole.space, whole.begin_bytes + begin, end - begin, 0}};
  result.size_bytes = end - begin;
  result.long_runs = tile.long_runs;
  for (const Piece& piece : tile.pieces) {
    const int64_t size = piece.end_bytes - piece.begin_bytes;
    const int64_t from = std::max(piece.at_bytes, begin);
    const int64_t to = std::min(piece.at_bytes + size, end);
    if (from >= to) continue;
    const int64_t shift = piece.begin_bytes - piece.at_bytes;
    result.pieces.push_back({piece.target, from + shift, to + shift, from - begin});
  }
  return result;
}

class Division {
 public:
  Division(const CopyProgram& program, const SourceHolders& holders, int64_t ranks,
           std::span<const int64_t> homes)
      : program_(program),
        holders_(holders),
        homes_(homes),
        load_bytes_(static_cast<size_t>(ranks), 0),
        slack_bytes_(program.target_bytes() / ranks / kSlackFraction) {
    for (int64_t rank = 0; rank < ranks; ++rank) everyone_.push_back(rank);
  }

  void add(const Tile& tile) {
    const std::vector<TileRegion> regions = regions_of(program_, tile);
    const std::vector<int64_t> able = able_to_make(regions);
    if (!able.empty()) {
      add_own(tile, able);
    } else if (has_long_pieces(tile)) {
      for (const Piece& piece : tile.pieces) {
        const int64_t size = piece.end_bytes - piece.begin_bytes;
        add(part_of_tile(tile, piece.at_bytes, piece.at_bytes + size));
      }
    } else if (has_long_runs(tile, regions)) {
      add_stretches(tile, regions);
    } else {
      shared_.push_back(tile);
    }
  }
  /// After the last tile: by now it is known what each rank makes alone.
  void divide_shared() {
    for (const Tile& tile : shared_) add_shared(tile, regions_of(program_, tile));
  }

  SaveDivision result() && { return std::move(result_); }

 private:
  const std::vector<int64_t>& ranks_of(int32_t set) const {
    return set == kAnyone ? everyone_ : holders_.sets[static_cast<size_t>(set)];
  }

  /// The ranks that hold all sources of these regions.
  std::vector<int64_t> able_to_make(const std::vector<TileRegion>& regions) const {
    std::vector<int64_t> able = everyone_;
    int32_t last = kAnyone;
    for (const TileRegion& part : regions) {
      const int32_t set = set_of(part.region, holders_);
      if (set == last || set == kAnyone) continue;
      last = set;
      std::vector<int64_t> both;
      std::ranges::set_intersection(able, ranks_of(set), std::back_inserter(both));
      able = std::move(both);
      if (able.empty()) break;
    }
    return able;
  }

  /// True if its targets are worth being divided each by itself: one may have longer runs.
  static bool has_long_pieces(const Tile& tile) {
    return tile.parts.size() == 1 && tile.pieces.size() > 1 &&
           tile.made_bytes() / std::ssize(tile.pieces) >= kLongRunBytes;
  }

  bool has_long_runs(const Tile& tile, const std::vector<TileRegion>& regions) const {
    int64_t runs = 0;
    for (const TileRegion& part : regions) runs += part.bytes() / runs_of(part).bytes;
    return tile.parts.size() == 1 &&
           tile.made_bytes() / std::max<int64_t>(runs, 1) >= kLongRunBytes;
  }

  int64_t home_of(const Tile& tile) const {
    return homes_.empty() ? kNoHome : homes_[static_cast<size_t>(tile.parts.front().space)];
  }

  /// The one that is at home in the tile's space, or has least to do.
  int64_t writer_among(const std::vector<int64_t>& ranks, const Tile& tile) const {
    const int64_t home = home_of(tile);
    if (std::ranges::binary_search(ranks, home)) return home;
    return *std::ranges::min_element(
        ranks, {}, [&](int64_t rank) { return load_bytes_[static_cast<size_t>(rank)]; });
  }

  /// The one that is at home in the tile's space; or of those that hold most of it the one that has
  /// least to do, so that little is sent, unless that makes it do much more than others.
  int64_t writer_of_shared(const Tile& tile, const std::vector<TileRegion>& regions) const {
    if (const int64_t home = home_of(tile); home != kNoHome) return home;
    std::vector<int64_t> held(load_bytes_.size(), 0);
    for (const TileRegion& part : regions) {
      for (const int64_t rank : ranks_of(set_of(part.region, holders_))) {
        held[static_cast<size_t>(rank)] += part.bytes();
      }
    }
    const auto load = [&](int64_t rank) { return load_bytes_[static_cast<size_t>(rank)]; };
    const int64_t most = std::ranges::max(held);
    const int64_t holder = *std::ranges::min_element(everyone_, {}, [&](int64_t rank) {
      return std::pair(held[static_cast<size_t>(rank)] < most, load(rank));
    });
    const int64_t idlest = *std::ranges::min_element(everyone_, {}, load);
    return load(holder) - load(idlest) <= slack_bytes_ ? holder : idlest;
  }

  void add_own(Tile tile, const std::vector<int64_t>& able) {
    const int64_t writer = writer_among(able, tile);
    load_bytes_[static_cast<size_t>(writer)] += tile.made_bytes();
    result_.own.push_back({std::move(tile), writer});
  }

  void add_stretches(const Tile& tile, const std::vector<TileRegion>& regions) {
    std::vector<Stretch> stretches;
    for (const TileRegion& part : regions) {
      add_runs(part, set_of(part.region, holders_), stretches);
    }
    for (const Stretch& stretch : joined(std::move(stretches))) {
      add_own(part_of_tile(tile, stretch.begin, stretch.end), ranks_of(stretch.set));
    }
  }

  void add_shared(const Tile& tile, const std::vector<TileRegion>& regions) {
    const int64_t writer = writer_of_shared(tile, regions);
    load_bytes_[static_cast<size_t>(writer)] += tile.made_bytes();
    std::map<int64_t, int64_t> bytes;
    for (const TileRegion& part : regions) {
      if (part.region.is_pad()) continue;
      const int64_t giver = giver_of(part.region, holders_, writer);
      if (giver != writer) bytes[giver] += part.bytes();
    }
    SharedTile shared{tile, writer, {}};
    for (const auto& [rank, count] : bytes) shared.portions.push_back({rank, count});
    result_.shared.push_back(std::move(shared));
  }

  const CopyProgram& program_;
  const SourceHolders& holders_;
  std::span<const int64_t> homes_;
  std::vector<int64_t> everyone_;
  std::vector<int64_t> load_bytes_;  // by rank
  int64_t slack_bytes_;              // that a rank may have more to do than another
  std::vector<Tile> shared_;         // not divided yet
  SaveDivision result_;
};

}  // namespace

SaveDivision divide(const CopyProgram& program, std::span<const Tile> tiles,
                    const SourceHolders& holders, int64_t ranks, std::span<const int64_t> homes) {
  Division division(program, holders, ranks, homes);
  for (const Tile& tile : tiles) division.add(tile);
  division.divide_shared();
  return std::move(division).result();
}

std::vector<TileRegion> regions_of(const CopyProgram& program, const Tile& tile) {
  std::vector<TileRegion> result;
  for (const Piece& piece : tile.pieces) {
    const ProgramTarget& target = program.targets()[static_cast<size_t>(piece.target)];
    for (Region& region : clip_target(target, piece.begin_bytes, piece.end_bytes)) {
      region.target_offset += piece.at_bytes - piece.begin_bytes;
      const RegionType type = region.is_pad() ? RegionType() : program.type_of(target, region);
      result.push_back({std::move(region), type, piece.target});
    }
  }
  return result;
}

int64_t giver_of(const Region& region, const SourceHolders& holders, int64_t writer) {
  const auto& ranks = holders.sets[static_cast<size_t>(set_of(region, holders))];
  if (std::ranges::binary_search(ranks, writer)) return writer;
  return ranks[static_cast<size_t>(writer) % ranks.size()];
}

std::vector<std::pair<size_t, size_t>> batches_of(std::span<const SharedTile> tiles, int64_t ranks,
                                                  int64_t budget_bytes) {
  std::vector<std::pair<size_t, size_t>> batches;
  std::vector<int64_t> moved;
  for (size_t i = 0; i < tiles.size(); ++i) {
    std::vector<int64_t> more = moved;
    more.resize(static_cast<size_t>(ranks), 0);
    for (const Portion& portion : tiles[i].portions) {
      more[static_cast<size_t>(portion.from)] += portion.bytes;
      more[static_cast<size_t>(tiles[i].writer)] += portion.bytes;
    }
    if (batches.empty() || std::ranges::max(more) > budget_bytes) {
      batches.emplace_back(i, i);
      for (size_t rank = 0; rank < moved.size(); ++rank) more[rank] -= moved[rank];
    }
    batches.back().second = i + 1;
    moved = std::move(more);
  }
  return batches;
}

}  // namespace weightloom
