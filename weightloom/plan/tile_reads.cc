// How one tile is read: which runs go straight into it, which through the staging buffer. What is
// computed for it stands in tile_computations.cc.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "weightloom/plan/schedule.h"
#include "weightloom/plan/tile_computations_internal.h"

namespace weightloom {
namespace {

// A run this long is worth a vector entry of a read call of its own, without a staging copy.
constexpr int64_t kDirectRunBytes = 2048;
// What a read call costs, in bytes that could be copied meanwhile.
constexpr int64_t kCallCostBytes = 5120;
// What is swept and then copied stays in the second-level cache meanwhile.
constexpr int64_t kSweepBytes = int64_t{512} << 10;

/// Length of the innermost run of bytes that is contiguous on both sides.
int64_t run_bytes(const Region& region) {
  if (region.axes.empty()) return 1;
  const Axis& last = region.axes.back();
  return last.target_stride == 1 && last.source_stride == 1 ? last.extent : 1;
}

/// A region of a tile with absolute file offsets on the source side.
struct TileRegion {
  int32_t file = 0;
  StagedCopy copy;

  const Region& region() const { return copy.region; }
  int64_t begin() const { return region().source_offset; }
  int64_t end() const {
    return region().source_offset + source_span(region()) + copy.type.source_bytes();
  }
  int64_t source_bytes() const { return volume(region()) * copy.type.source_bytes(); }
  bool has_long_runs() const { return run_bytes(region()) >= kDirectRunBytes; }
};

/// Regions [first, last), which lie among one another, or side by side, in one file.
struct Neighbours {
  size_t first = 0;
  size_t last = 0;
  int64_t end = 0;     // in the file
  int64_t needed = 0;  // bytes of the sources, counted for each region
  bool all_long = true;
  bool all_short = true;
};

/// The source side of a region alone: its contiguous run and the axes that step over it, outermost
/// first, as indexes into the region's axes.
struct SourceWalk {
  int64_t run = 1;
  std::vector<size_t> outer;
};

SourceWalk source_walk(const Region& region, int64_t point_bytes) {
  SourceWalk walk{point_bytes, {}};
  std::vector<size_t> order(region.axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return region.axes[a].source_stride < region.axes[b].source_stride;
  });
  for (size_t i : order) {
    const Axis& axis = region.axes[i];
    if (walk.outer.empty() && axis.source_stride == walk.run) {
      walk.run *= axis.extent;
    } else {
      walk.outer.push_back(i);
    }
  }
  std::reverse(walk.outer.begin(), walk.outer.end());
  return walk;
}

/// Calls visit(offset) for each combination of the axes, offsets by `stride`, in lexicographic
/// order.
template <typename Visit>
void for_each_step(std::span<const Axis> axes, int64_t Axis::* stride, Visit visit) {
  std::vector<int64_t> count(axes.size(), 0);
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t i = axes.size();
    while (i > 0) {
      --i;
      offset += axes[i].*stride;
      if (++count[i] < axes[i].extent) break;
      offset -= axes[i].*stride * axes[i].extent;
      count[i] = 0;
      if (i == 0) return;
    }
    if (axes.empty()) return;
  }
}

/// Steps [first, first + count) of an axis.
struct Steps {
  int64_t first = 0;
  int64_t count = 0;
};

/// Some steps of the outermost axis of a region.
Region outermost_steps(const Region& region, Steps steps) {
  Region part = region;
  const Axis& axis = region.axes.front();
  part.source_offset += steps.first * axis.source_stride;
  part.target_offset += steps.first * axis.target_stride;
  part.axes.front().extent = steps.count;
  if (steps.count == 1) part.axes.erase(part.axes.begin());
  return part;
}

class RegionReader {
 public:
  RegionReader(const CopyProgram& program, ReadLimits limits)
      : program_(program),
        staging_cap_(limits.staging_bytes),
        may_share_(limits.may_share),
        computed_(program, limits.staging_bytes) {}

  void add(const ProgramTarget& target, std::vector<Region> regions, int32_t owner) {
    for (Region& region : regions) collect(target, std::move(region), owner);
  }

  TileReads read() && {
    // All the way down to places in the tile, so that equal tiles are read in equal order.
    std::sort(regions_.begin(), regions_.end(), [](const TileRegion& a, const TileRegion& b) {
      return std::tuple(a.file, a.begin(), a.region().target_offset) <
             std::tuple(b.file, b.begin(), b.region().target_offset);
    });
    for (size_t i = 0; i < regions_.size();) {
      const Neighbours some = neighbours_from(i);
      read(some);
      i = some.last;
    }
    merge_direct();
    add_computations();
    return std::move(reads_);
  }

 private:
  void collect(const ProgramTarget& target, Region region, int32_t owner) {
    if (region.is_pad()) {
      reads_.fills.push_back(std::move(region));
      return;
    }
    const ProgramSource& source = program_.source_of(region);
    const RegionType type = program_.type_of(target, region);
    if (source.is_computed()) return computed_.add(region, type, owner);
    region.source_offset += source.offset_bytes;
    if (!target.is_computed) reads_.bytes_needed += volume(region) * type.source_bytes();
    collect({source.file, {std::move(region), type, owner}});
  }

  void add_computations() {
    reads_.computations = std::move(computed_).take();
    for (const Computation& computation : reads_.computations) {
      reads_.staging_bytes = std::max(reads_.staging_bytes, computation.staging_bytes);
      for (const OperandReads& input : computation.inputs) {
        reads_.bytes_read += input.reads.bytes_read;
        reads_.read_calls += input.reads.read_calls;
      }
    }
  }

  /// What is copied takes no more staging than room in the tile; what is cast may, and is divided
  /// until it fits.
  void collect(TileRegion whole) {
    if (!whole.copy.type.casts() || whole.source_bytes() <= staging_cap_ ||
        whole.region().axes.empty()) {
      regions_.push_back(std::move(whole));
      return;
    }
    const int64_t extent = whole.region().axes.front().extent;
    const int64_t step_bytes = whole.source_bytes() / extent;
    const int64_t most = std::max<int64_t>(staging_cap_ / step_bytes, 1);
    for (int64_t first = 0; first < extent; first += most) {
      TileRegion part = whole;
      part.copy.region = outermost_steps(whole.region(), {first, std::min(most, extent - first)});
      collect(std::move(part));
    }
  }

  Neighbours neighbours_from(size_t first) const {
    Neighbours some{first, first, regions_[first].begin(), 0, true, true};
    do {
      const TileRegion& next = regions_[some.last];
      some.end = std::max(some.end, next.end());
      some.needed += next.source_bytes();
      (next.has_long_runs() ? some.all_short : some.all_long) = false;
      ++some.last;
    } while (some.last < regions_.size() && joins(some, regions_[some.last]));
    return some;
  }

  /// Short runs join what they touch; long ones only what they lie among.
  bool joins(const Neighbours& some, const TileRegion& next) const {
    const TileRegion& first = regions_[some.first];
    if (next.file != first.file) return false;
    if (std::max(some.end, next.end()) - first.begin() > staging_cap_) return false;
    if (some.all_short && !next.has_long_runs()) return next.begin() <= some.end;
    return may_share_ && next.begin() < some.end;
  }

  /// Long runs go straight into the tile, unless some bytes would be read for several of them.
  /// Others, together with what lies among them, in one sweep or each by itself.
  void read(const Neighbours& some) {
    const int64_t hull = some.end - regions_[some.first].begin();
    const bool straight = some.all_long && some.needed <= hull;
    if (!straight && is_cheaper_in_one_sweep(some, hull)) return stage_hull(some, hull);
    for (size_t i = some.first; i < some.last; ++i) read_alone(i);
  }

  void read_alone(size_t i) {
    const TileRegion& region = regions_[i];
    if (region.has_long_runs()) return read_direct(region);
    const Neighbours alone{i, i + 1, region.end(), region.source_bytes(), false, true};
    const int64_t hull = region.end() - region.begin();
    if (is_cheaper_in_one_sweep(alone, hull)) return stage_hull(alone, hull);
    stage_runs(region);
  }

  bool is_cheaper_in_one_sweep(const Neighbours& some, int64_t hull) const {
    int64_t calls = 0;
    for (size_t i = some.first; i < some.last; ++i) {
      const int64_t point_bytes = regions_[i].copy.type.source_bytes();
      calls += regions_[i].source_bytes() / source_walk(regions_[i].region(), point_bytes).run;
    }
    return hull <= staging_cap_ && hull + kCallCostBytes <= some.needed + calls * kCallCostBytes;
  }

  void read_direct(const TileRegion& from) {
    const Region& region = from.region();
    const auto outer = std::span<const Axis>(region.axes).first(region.axes.size() - 1);
    const int64_t size = region.axes.back().extent;
    const size_t before = reads_.direct.size();
    for_each_step(outer, &Axis::target_stride, [&](int64_t offset) {
      reads_.direct.push_back({from.file, 0, region.target_offset + offset, size});
    });
    size_t i = before;
    for_each_step(outer, &Axis::source_stride, [&](int64_t offset) {
      reads_.direct[i++].file_offset = region.source_offset + offset;
    });
  }

  /// In one sweep, or in several along the outermost axis of all the regions: what was read then
  /// stays in the cache until it is copied.
  void stage_hull(const Neighbours& some, int64_t hull) {
    const std::optional<Axis> rows = common_rows(some);
    if (!rows || hull <= kSweepBytes) return stage_sweep(some, std::nullopt);
    const int64_t most = std::max<int64_t>(kSweepBytes / rows->source_stride, 1);
    for (int64_t first = 0; first < rows->extent; first += most) {
      stage_sweep(some, Steps{first, std::min(most, rows->extent - first)});
    }
  }

  /// The outermost axis of both sides, if all regions step along it together and one step of all
  /// ends before the next one begins.
  std::optional<Axis> common_rows(const Neighbours& some) const {
    std::optional<Axis> rows;
    int64_t end = 0;
    for (size_t i = some.first; i < some.last; ++i) {
      const AxisList& axes = regions_[i].region().axes;
      if (axes.empty()) return std::nullopt;
      const Axis& outer = axes.front();
      if (rows && (outer.extent != rows->extent || outer.source_stride != rows->source_stride)) {
        return std::nullopt;
      }
      rows = outer;
      end = std::max(end, regions_[i].end() - (outer.extent - 1) * outer.source_stride);
    }
    if (end - regions_[some.first].begin() > rows->source_stride) return std::nullopt;
    return rows;
  }

  /// Reads the hull of the regions, or of some of their steps.
  void stage_sweep(const Neighbours& some, std::optional<Steps> steps) {
    StagedGroup group;
    group.file = regions_[some.first].file;
    int64_t end = 0;
    for (size_t i = some.first; i < some.last; ++i) {
      TileRegion part = regions_[i];
      if (steps) part.copy.region = outermost_steps(part.region(), *steps);
      end = std::max(end, part.end());
      group.copies.push_back(std::move(part.copy));
    }
    const int64_t begin = group.copies.front().region.source_offset;
    for (StagedCopy& copy : group.copies) copy.region.source_offset -= begin;
    group.staging_bytes = end - begin;
    group.reads.push_back({begin, 0, group.staging_bytes});
    add(std::move(group));
  }

  /// Reads each contiguous source run of a region, packed one after the other.
  void stage_runs(const TileRegion& from) {
    const SourceWalk walk = source_walk(from.region(), from.copy.type.source_bytes());
    StagedGroup group;
    group.file = from.file;
    std::vector<Axis> outer;
    for (size_t i : walk.outer) outer.push_back(from.region().axes[i]);
    for_each_step(outer, &Axis::source_stride, [&](int64_t offset) {
      group.reads.push_back({from.region().source_offset + offset, group.staging_bytes, walk.run});
      group.staging_bytes += walk.run;
    });
    StagedCopy copy = from.copy;
    copy.region.source_offset = 0;
    int64_t packed = walk.run;
    for (size_t i = walk.outer.size(); i-- > 0;) {
      Axis& axis = copy.region.axes[walk.outer[i]];
      axis.source_stride = packed;
      packed *= axis.extent;
    }
    copy.region = normalized(std::move(copy.region));
    group.copies.push_back(std::move(copy));
    add(std::move(group));
  }

  void add(StagedGroup group) {
    for (const StagingRead& read : group.reads) reads_.bytes_read += read.size_bytes;
    reads_.read_calls += static_cast<int64_t>(group.reads.size());
    reads_.staging_bytes = std::max(reads_.staging_bytes, group.staging_bytes);
    reads_.staged.push_back(std::move(group));
  }

  /// Sorts direct reads by file offset and joins those that are one run on both sides.
  void merge_direct() {
    auto& direct = reads_.direct;
    std::sort(direct.begin(), direct.end(), [](const DirectRead& a, const DirectRead& b) {
      return std::tie(a.file, a.file_offset, a.tile_offset) <
             std::tie(b.file, b.file_offset, b.tile_offset);
    });
    size_t kept = 0;
    int64_t last_end = -1;
    int32_t last_file = -1;
    for (size_t i = 0; i < direct.size(); ++i) {
      const DirectRead read = direct[i];
      reads_.bytes_read += read.size_bytes;
      const bool continues = read.file == last_file && read.file_offset == last_end;
      reads_.read_calls += continues ? 0 : 1;
      last_end = read.file_offset + read.size_bytes;
      last_file = read.file;
      DirectRead* before = kept > 0 ? &direct[kept - 1] : nullptr;
      if (continues && before->tile_offset + before->size_bytes == read.tile_offset) {
        before->size_bytes += read.size_bytes;
      } else {
        direct[kept++] = read;
      }
    }
    direct.resize(kept);
  }

  const CopyProgram& program_;
  int64_t staging_cap_;
  bool may_share_;  // regions of long runs may take the same bytes
  std::vector<TileRegion> regions_;
  Computations computed_;
  TileReads reads_;
};

/// Of what a target needs, the share of bytes [0, end) of it.
int64_t needed_until(const ProgramTarget& target, int64_t end) {
  const double share = static_cast<double>(end) / static_cast<double>(target.size_bytes);
  return end == target.size_bytes
             ? target.needed_bytes
             : static_cast<int64_t>(static_cast<double>(target.needed_bytes) * share);
}

}  // namespace

TileReads read_regions(const CopyProgram& program, const ProgramTarget& target,
                       std::vector<Region> regions, int32_t owner, const ReadLimits& limits) {
  RegionReader reader(program, limits);
  reader.add(target, std::move(regions), owner);
  return std::move(reader).read();
}

TileReads read_tile(const CopyProgram& program, const Tile& tile, const ScheduleLimits& limits) {
  RegionReader reader(program, {limits.worker_bytes - tile.size_bytes, !tile.long_runs});
  int64_t needed = 0;  // by pieces of targets that are computed: shares that add up
  for (const Piece& piece : tile.pieces) {
    const auto& target = program.targets()[static_cast<size_t>(piece.target)];
    std::vector<Region> regions = clip_target(target, piece.begin_bytes, piece.end_bytes);
    for (Region& region : regions) region.target_offset += piece.at_bytes - piece.begin_bytes;
    reader.add(target, std::move(regions), piece.target);
    if (!target.is_computed) continue;
    needed += needed_until(target, piece.end_bytes) - needed_until(target, piece.begin_bytes);
  }
  TileReads reads = std::move(reader).read();
  reads.bytes_needed += needed;
  return reads;
}

}  // namespace weightloom
