#include "weightloom/plan/schedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"

namespace weightloom {
namespace {

constexpr int64_t kSmallestWorkerBytes = int64_t{1} << 20;
// Runs at least this long make a target that may be cut anywhere.
constexpr int64_t kLongRunBytes = int64_t{64} << 10;
// Neighbours in a space share a tile across a gap (alignment) of at most this.
constexpr int64_t kLargestGapBytes = 4096;
constexpr int64_t kPageBytes = 4096;
// A read call costs as much time as copying this many bytes.
constexpr double kCallCostBytes = 3072;

/// A target is cut into multiples of this many bytes.
int64_t cut_unit(const ProgramTarget& target) {
  return target.has_casts ? bits(target.dtype) / 8 : 1;
}

/// Down to a multiple of `unit`, but at least one.
int64_t in_units(int64_t size, int64_t unit) { return std::max(size / unit * unit, unit); }

int64_t shortest_run(const ProgramTarget& target) {
  int64_t shortest = target.size_bytes;
  for (const Region& region : target.regions) {
    const bool unit = !region.axes.empty() && region.axes.back().target_stride == 1 &&
                      (region.is_pad() || region.axes.back().source_stride == 1);
    shortest = std::min(shortest, unit ? region.axes.back().extent : 1);
  }
  return shortest;
}

/// Cuts targets into tiles. Targets with long runs are cut at tile_bytes; others at the smallest
/// size whose reads are about as cheap as those of the largest size allowed.
class Scheduler {
 public:
  Scheduler(const CopyProgram& program, const ScheduleLimits& limits,
            const std::function<void(const Tile&)>& visit)
      : program_(program), limits_(limits), visit_(visit) {}

  void add(int32_t index, Placement at) {
    const ProgramTarget& target = program_.targets()[static_cast<size_t>(index)];
    if (target.size_bytes == 0) return;
    const bool plain =
        !target.has_casts && shortest_run(target) >= std::min(kLongRunBytes, target.size_bytes);
    const int64_t piece = plain ? limits_.tile_bytes : piece_bytes(index);
    for (int64_t begin = 0; begin < target.size_bytes;) {
      begin = add_piece(index, at, begin, {piece, plain});
    }
  }

  void finish() { close(); }

 private:
  struct Cut {
    int64_t piece_bytes;
    bool long_runs;
  };

  /// Adds [begin, …) of a target, as much as the open tile and `cut` allow; gives where it ended.
  int64_t add_piece(int32_t index, Placement at, int64_t begin, Cut cut) {
    const ProgramTarget& target = program_.targets()[static_cast<size_t>(index)];
    const int64_t from = at.offset_bytes + begin;
    const int64_t unit = cut_unit(target);
    const int64_t wanted = in_units(std::min(cut.piece_bytes, target.size_bytes - begin), unit);
    const bool alone = wanted > limits_.tile_bytes;
    if (alone || !continues(at.space, from) || tile_end_ - from < unit) close();
    if (tile_.pieces.empty()) open(at.space, from, alone ? from + wanted : usual_end(from));
    const int64_t size = in_units(std::min(wanted, tile_end_ - from), unit);
    const int64_t at_bytes = from - tile_.begin_bytes;
    tile_.pieces.push_back({index, begin, begin + size, at_bytes});
    tile_.size_bytes = at_bytes + size;
    tile_.long_runs = tile_.long_runs && cut.long_runs;
    if (from + size >= tile_end_) close();
    return begin + size;
  }

  bool continues(int32_t space, int64_t from) const {
    const int64_t end = tile_.begin_bytes + tile_.size_bytes;
    return tile_.space == space && from >= end && from - end <= kLargestGapBytes &&
           from < tile_end_;
  }

  /// Tiles end on whole pages of their space, so that a writer can bypass the page cache.
  int64_t usual_end(int64_t begin) const {
    const int64_t end = begin + limits_.tile_bytes;
    return limits_.tile_bytes < 2 * kPageBytes ? end : end / kPageBytes * kPageBytes;
  }

  void open(int32_t space, int64_t begin, int64_t end) {
    tile_.space = space;
    tile_.begin_bytes = begin;
    tile_end_ = end;
  }

  void close() {
    if (!tile_.pieces.empty()) visit_(tile_);
    tile_.pieces.clear();
    tile_.long_runs = true;
  }

  /// The smallest size, from tile_bytes doubling, that reads within a tenth of the best.
  int64_t piece_bytes(int32_t index) {
    const ProgramTarget& target = program_.targets()[static_cast<size_t>(index)];
    const int64_t most = std::min(target.size_bytes, limits_.worker_bytes / 2);
    if (most <= limits_.tile_bytes) return most;
    std::vector<std::pair<int64_t, double>> costs;
    for (int64_t size = std::min(limits_.tile_bytes, most);; size = std::min(size * 2, most)) {
      const int64_t rounded = round_to_row(target, size);
      costs.emplace_back(rounded, cost_per_byte(index, rounded));
      if (size == most) break;
    }
    double best = costs.back().second;
    for (const auto& [size, cost] : costs) best = std::min(best, cost);
    for (const auto& [size, cost] : costs) {
      if (cost <= best * 1.1) return size;
    }
    return costs.back().first;
  }

  /// Down to a multiple of the largest row-major stride that fits, so that tiles are whole rows.
  static int64_t round_to_row(const ProgramTarget& target, int64_t size) {
    size = in_units(size, cut_unit(target));
    int64_t row = target.size_bytes;
    for (int64_t n : target.shape) {
      if (row <= size) return size / row * row;
      row /= n;
    }
    return row > 0 && row <= size ? size / row * row : size;
  }

  /// The cost of reading the middle piece of a target, in bytes of copying per byte made.
  double cost_per_byte(int32_t index, int64_t size) {
    const ProgramTarget& target = program_.targets()[static_cast<size_t>(index)];
    const int64_t pieces = ceil_div(target.size_bytes, size);
    const int64_t begin = pieces / 2 * size == target.size_bytes ? 0 : pieces / 2 * size;
    const int64_t end = std::min(begin + size, target.size_bytes);
    const Tile tile{0, 0, end - begin, {{index, begin, end, 0}}};
    const TileReads reads = read_tile(program_, tile, limits_);
    return (static_cast<double>(reads.bytes_read) +
            static_cast<double>(reads.read_calls) * kCallCostBytes) /
           static_cast<double>(end - begin);
  }

  const CopyProgram& program_;
  const ScheduleLimits& limits_;
  const std::function<void(const Tile&)>& visit_;
  Tile tile_;
  int64_t tile_end_ = 0;  // in the space of tile_
};

}  // namespace

ScheduleLimits limits_for(int64_t memory_budget_bytes, int threads) {
  ScheduleLimits limits;
  // A lent tile may begin anywhere in a page.
  limits.worker_bytes = memory_budget_bytes / std::max(threads, 1) - kPageBytes;
  if (limits.worker_bytes + kPageBytes < kSmallestWorkerBytes) {
    throw Error(
        ErrorCode::usage,
        fmt::format("memory budget {} for {} threads leaves {} a thread, needed at least {}",
                    format_byte_size(memory_budget_bytes), threads,
                    format_byte_size(limits.worker_bytes), format_byte_size(kSmallestWorkerBytes)),
        "raise --memory-budget or lower --threads");
  }
  limits.tile_bytes = std::min(limits.tile_bytes, limits.worker_bytes / 2);
  return limits;
}

void for_each_tile(const CopyProgram& program, std::span<const Placement> placements,
                   const ScheduleLimits& limits, const std::function<void(const Tile&)>& visit) {
  std::vector<int32_t> order(program.targets().size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Placement& pa = placements[static_cast<size_t>(a)];
    const Placement& pb = placements[static_cast<size_t>(b)];
    return std::tuple(pa.space, pa.offset_bytes, a) < std::tuple(pb.space, pb.offset_bytes, b);
  });
  Scheduler scheduler(program, limits, visit);
  for (int32_t index : order) scheduler.add(index, placements[static_cast<size_t>(index)]);
  scheduler.finish();
}

std::vector<Tile> make_schedule(const CopyProgram& program, std::span<const Placement> placements,
                                const ScheduleLimits& limits) {
  std::vector<Tile> tiles;
  for_each_tile(program, placements, limits, [&](const Tile& tile) { tiles.push_back(tile); });
  return tiles;
}

}  // namespace weightloom
