#include "weightloom/layout/coverage.h"

#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/layout/factor_clip.h"
#include "weightloom/layout/notation.h"

// How the exact answer is found. Where regions are runs, it is seen whether they follow one
// another. Else regions sorted by offset fall into clusters whose hulls overlap. Between clusters,
// and in a cluster of one region, holes can be read off. Where hulls overlap, the cluster is cut
// into blocks of its coarsest stride T: a region becomes pieces (rows [p, q) of blocks) × (a
// pattern inside a block), so between two rows where a piece begins or ends all blocks look the
// same, and one block of T elements, with finer strides only, stands for them. Where strides do not
// divide one another that may not work, and the cluster's elements are counted, one by one.

namespace weightloom {
namespace {

std::optional<CoverageFault> first_fault(std::vector<Region> regions, int64_t size);

std::optional<CoverageFault> moved(std::optional<CoverageFault> fault, int64_t distance) {
  if (fault) fault->offset += distance;
  return fault;
}

int64_t end_of(const Region& region) { return region.target_offset + target_span(region) + 1; }

/// The first offset from its begin that a single region leaves out, at most its end.
int64_t first_hole(const Region& region) {
  int64_t filled = 1;  // elements from the begin that the axes so far, innermost first, fill
  for (size_t i = region.axes.size(); i-- > 0;) {
    if (region.axes[i].target_stride != filled) break;
    filled *= region.axes[i].extent;
  }
  return region.target_offset + filled;
}

// ---- Blocks of the coarsest stride.

/// Blocks [first, end) each hold `inner`, whose offsets are those in the block.
struct BlockRows {
  int64_t first = 0;
  int64_t end = 0;
  Region inner;
};

BlockRows block_rows(Region piece, int64_t block) {
  BlockRows rows{piece.target_offset / block, piece.target_offset / block + 1, {}};
  const auto outer = std::ranges::find_if(
      piece.axes, [block](const Axis& axis) { return axis.target_stride == block; });
  if (outer != piece.axes.end()) {
    rows.end = rows.first + outer->extent;
    piece.axes.erase(outer);
  }
  piece.target_offset %= block;
  rows.inner = normalized(std::move(piece));
  return rows;
}

bool strides_divide(const Region& region, int64_t block) {
  return std::ranges::all_of(region.axes,
                             [block](const Axis& axis) { return block % axis.target_stride == 0; });
}

int64_t coarsest_stride(std::span<const Region> regions) {
  int64_t coarsest = 0;
  for (const Region& region : regions) {
    for (const Axis& axis : region.axes) coarsest = std::max(coarsest, axis.target_stride);
  }
  return coarsest;
}

/// Row numbers at which a piece begins or ends, or at which the blocks of `size` elements end.
std::vector<int64_t> row_cuts(std::span<const BlockRows> pieces, int64_t block, int64_t size) {
  std::vector<int64_t> cuts = {0, size / block};
  if (size % block != 0) cuts.push_back(size / block + 1);
  for (const BlockRows& piece : pieces) {
    cuts.push_back(piece.first);
    cuts.push_back(piece.end);
  }
  std::ranges::sort(cuts);
  const auto repeats = std::ranges::unique(cuts);
  cuts.erase(repeats.begin(), repeats.end());
  return cuts;
}

std::optional<CoverageFault> fault_by_blocks(std::vector<BlockRows> pieces, int64_t block,
                                             int64_t size) {
  std::ranges::sort(pieces, {}, &BlockRows::first);
  const std::vector<int64_t> cuts = row_cuts(pieces, block, size);
  std::vector<const BlockRows*> active;
  auto next = pieces.cbegin();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t row = cuts[i];
    std::erase_if(active, [row](const BlockRows* piece) { return piece->end <= row; });
    for (; next != pieces.cend() && next->first == row; ++next) active.push_back(&*next);
    std::vector<Region> inner;
    inner.reserve(active.size());
    for (const BlockRows* piece : active) inner.push_back(piece->inner);
    const int64_t block_size = std::min(block, size - row * block);
    if (auto fault = first_fault(std::move(inner), block_size)) {
      return moved(fault, row * block);
    }
  }
  return std::nullopt;
}

// ---- Counting, where strides do not divide one another.

constexpr int64_t kTileElements = int64_t{1} << 24;

using Counts = std::vector<uint8_t>;  // they stop at 2, which is enough to tell 1 from the rest

void count_elements(Counts& counts, int64_t offset, std::span<const Axis> axes) {
  if (axes.empty()) {
    uint8_t& count = counts[static_cast<size_t>(offset)];
    count = std::min<uint8_t>(2, static_cast<uint8_t>(count + 1));
    return;
  }
  for (int64_t k = 0; k < axes[0].extent; ++k) {
    count_elements(counts, offset + k * axes[0].target_stride, axes.subspan(1));
  }
}

int64_t times_covered(std::span<const Region> regions, int64_t offset, int64_t size) {
  int64_t times = 0;
  for (const Region& region : regions) {
    times += std::ssize(clip(region, size, offset, offset + 1));
  }
  return times;
}

std::optional<CoverageFault> fault_by_counting(std::span<const Region> regions, int64_t size) {
  Counts counts;
  for (int64_t tile = 0; tile < size; tile += kTileElements) {
    const int64_t tile_end = tile + std::min(kTileElements, size - tile);
    counts.assign(static_cast<size_t>(tile_end - tile), 0);
    for (const Region& region : regions) {
      for (const Region& part : clip(region, size, tile, tile_end)) {
        count_elements(counts, part.target_offset - tile, part.axes);
      }
    }
    const auto bad = std::ranges::find_if(counts, [](uint8_t count) { return count != 1; });
    if (bad != counts.end()) {
      const int64_t offset = tile + (bad - counts.begin());
      return CoverageFault{offset, times_covered(regions, offset, size)};
    }
  }
  return std::nullopt;
}

// ---- Clusters.

/// Regions whose hulls overlap and together reach from 0 to `size`.
std::optional<CoverageFault> fault_of_cluster(std::vector<Region> regions, int64_t size) {
  const int64_t block = coarsest_stride(regions);
  if (block == 0) return CoverageFault{0, std::ssize(regions)};  // one element, several times
  std::vector<BlockRows> pieces;
  pieces.reserve(regions.size());
  for (const Region& region : regions) {
    if (is_factored(region, block)) {
      pieces.push_back(block_rows(region, block));
    } else if (strides_divide(region, block)) {
      for (Region& piece : factor(region, block)) {
        pieces.push_back(block_rows(std::move(piece), block));
      }
    } else {
      return fault_by_counting(regions, size);
    }
  }
  return fault_by_blocks(std::move(pieces), block, size);
}

/// Of regions inside [0, size), in normal form.
std::optional<CoverageFault> first_fault(std::vector<Region> regions, int64_t size) {
  std::ranges::sort(regions, {}, &Region::target_offset);
  int64_t covered = 0;  // all before it is covered once
  for (size_t i = 0; i < regions.size();) {
    if (regions[i].target_offset > covered) break;
    int64_t end = end_of(regions[i]);
    size_t next = i + 1;
    for (; next < regions.size() && regions[next].target_offset < end; ++next) {
      end = std::max(end, end_of(regions[next]));
    }
    if (next == i + 1) {
      covered = first_hole(regions[i]);
      if (covered < end) break;
    } else {
      std::vector<Region> cluster;
      cluster.reserve(next - i);
      for (size_t j = i; j < next; ++j) {
        cluster.push_back(std::move(regions[j]));
        cluster.back().target_offset -= covered;
      }
      if (auto fault = fault_of_cluster(std::move(cluster), end - covered)) {
        return moved(fault, covered);
      }
      covered = end;
    }
    i = next;
  }
  if (covered < size) return CoverageFault{covered, 0};
  return std::nullopt;
}

// ---- One side of regions.

/// The numbers of a region on one side. Pads are on the target side only.
struct RegionSide {
  int64_t Region::* offset;
  int64_t Axis::* stride;
  bool has_pads;

  bool has(const Region& region) const { return has_pads || !region.is_pad(); }
};
constexpr RegionSide kTargetSide = {&Region::target_offset, &Axis::target_stride, true};
constexpr RegionSide kSourceSide = {&Region::source_offset, &Axis::source_stride, false};

/// Elements [begin, end).
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
};

/// What a region without steps fills; nothing if it steps, or ends beyond 64 bits.
std::optional<Run> run_of(const Region& region, RegionSide side) {
  const int64_t begin = region.*side.offset;
  if (region.axes.size() > 1) return std::nullopt;
  if (!region.axes.empty() && region.axes[0].*side.stride != 1) return std::nullopt;
  const auto end = checked_add(begin, region.axes.empty() ? 1 : region.axes[0].extent);
  return end ? std::optional(Run{begin, *end}) : std::nullopt;
}

/// True if the runs, put in order, follow one another from 0 to `size`.
bool fill(std::vector<Run> runs, int64_t size) {
  if (!std::ranges::is_sorted(runs, {}, &Run::begin)) std::ranges::sort(runs, {}, &Run::begin);
  int64_t filled = 0;
  for (const Run& run : runs) {
    if (run.begin != filled || run.end <= run.begin) return false;
    filled = run.end;
  }
  return filled == size;
}

/// True if the regions are runs that fill [0, size): so nearly all tensors are made.
bool is_filled_by_runs(std::span<const Region> regions, RegionSide side, int64_t size) {
  std::vector<Run> runs;
  runs.reserve(regions.size());
  for (const Region& region : regions) {
    if (!side.has(region)) continue;
    const auto run = run_of(region, side);
    if (!run) return false;
    runs.push_back(*run);
  }
  return fill(std::move(runs), size);
}

/// That side as the target side of a pad.
Region one_sided(const Region& region, RegionSide side) {
  Region result;
  result.target_offset = region.*side.offset;
  result.axes.reserve(region.axes.size());
  for (const Axis& axis : region.axes) result.axes.push_back({axis.extent, axis.*side.stride, 0});
  return result;
}

std::optional<CoverageFault> fault_on(RegionSide side, std::span<const Region> regions,
                                      int64_t size) {
  if (is_filled_by_runs(regions, side, size)) return std::nullopt;
  std::vector<Region> sides;
  sides.reserve(regions.size());
  for (const Region& region : regions) {
    if (side.has(region)) sides.push_back(one_sided(region, side));
  }
  // Layout::make refuses what is out of bounds or not nested.
  return first_fault(std::move(Layout::make({size}, std::move(sides))).regions(), size);
}

}  // namespace

std::optional<CoverageFault> coverage_fault(const Layout& layout) {
  return fault_on(kTargetSide, layout.regions(), layout.size());
}

std::optional<CoverageFault> coverage_fault(int64_t size, std::span<const Region> readers) {
  return fault_on(kSourceSide, readers, size);
}

}  // namespace weightloom
