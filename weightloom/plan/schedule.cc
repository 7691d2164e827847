#include "weightloom/plan/schedule.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/plan/family_cut_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kSmallestWorkerBytes = int64_t{1} << 20;
// Runs at least this long make a target that may be cut anywhere.
constexpr int64_t kLongRunBytes = int64_t{64} << 10;
// Neighbours in a space share a tile across a gap (alignment) of at most this.
constexpr int64_t kLargestGapBytes = 4096;
constexpr int64_t kPageBytes = 4096;
// A read call costs as much time as copying this many bytes.
constexpr double kCallCostBytes = 5120;

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

/// True if every run is long, so that it does not matter where the target is cut.
bool has_long_runs(const ProgramTarget& target) {
  return !target.has_casts && shortest_run(target) >= std::min(kLongRunBytes, target.size_bytes);
}

/// What reading costs, in bytes of copying.
double cost_of_reads(const TileReads& reads) {
  return static_cast<double>(reads.bytes_read) +
         static_cast<double>(reads.read_calls) * kCallCostBytes;
}

/// A candidate, and its cost.
template <typename Choice>
using Priced = std::pair<Choice, double>;

/// The first whose cost is within a tenth of the best. Precondition: there is one.
template <typename Choice>
const Choice& first_good(const std::vector<Priced<Choice>>& candidates) {
  double best = candidates.front().second;
  for (const auto& [choice, cost] : candidates) best = std::min(best, cost);
  const auto good = [&](const Priced<Choice>& candidate) { return candidate.second <= best * 1.1; };
  return std::find_if(candidates.begin(), candidates.end(), good)->first;
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
    const bool plain = has_long_runs(target);
    const int64_t piece = plain ? limits_.tile_bytes : piece_bytes(index);
    for (int64_t begin = 0; begin < target.size_bytes;) {
      begin = add_piece(index, at, begin, {piece, plain});
    }
  }

  /// Adds all members of a family, in tiles that hold parts of each. False, and nothing is added,
  /// if they are better cut each by itself.
  bool add_family(std::span<const FamilyMember> members) {
    const std::optional<FamilyCut> cut = cut_of(members);
    if (!cut) return false;
    close();
    for (int64_t i = 0; i < cut->count(); ++i) visit_(cut->tile(i));
    return true;
  }

  /// Ends the tile that is open, if any.
  void close() {
    if (!tile_.pieces.empty()) visit_(tile_);
    tile_.parts.clear();
    tile_.pieces.clear();
    tile_.long_runs = true;
  }

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
    TilePart& range = tile_.parts.front();
    const int64_t at_bytes = from - range.begin_bytes;
    tile_.pieces.push_back({index, begin, begin + size, at_bytes});
    tile_.size_bytes = range.size_bytes = at_bytes + size;
    tile_.long_runs = tile_.long_runs && cut.long_runs;
    if (from + size >= tile_end_) close();
    return begin + size;
  }

  bool continues(int32_t space, int64_t from) const {
    if (tile_.parts.empty()) return false;
    const TilePart& range = tile_.parts.front();
    const int64_t end = range.begin_bytes + range.size_bytes;
    return range.space == space && from >= end && from - end <= kLargestGapBytes &&
           from < tile_end_;
  }

  /// Tiles end on whole pages of their space, so that a writer can bypass the page cache.
  int64_t usual_end(int64_t begin) const {
    const int64_t end = begin + limits_.tile_bytes;
    return limits_.tile_bytes < 2 * kPageBytes ? end : end / kPageBytes * kPageBytes;
  }

  void open(int32_t space, int64_t begin, int64_t end) {
    tile_.parts = {{space, begin, 0, 0}};
    tile_end_ = end;
  }

  /// The smallest size, from tile_bytes doubling, that reads within a tenth of the best.
  int64_t piece_bytes(int32_t index) {
    const ProgramTarget& target = program_.targets()[static_cast<size_t>(index)];
    const int64_t most = std::min(target.size_bytes, limits_.worker_bytes / 2);
    if (most <= limits_.tile_bytes) return most;
    std::vector<Priced<int64_t>> sizes;
    for (int64_t size = std::min(limits_.tile_bytes, most);; size = std::min(size * 2, most)) {
      const int64_t rounded = round_to_row(target, size);
      sizes.emplace_back(rounded, cost_per_byte(index, rounded));
      if (size == most) break;
    }
    return first_good(sizes);
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
    const Tile tile{{{0, 0, end - begin, 0}}, end - begin, {{index, begin, end, 0}}, false};
    return cost_of_reads(read_tile(program_, tile, limits_)) / static_cast<double>(end - begin);
  }

  /// How a family is cut: into tiles of tile_bytes, unless larger or else smaller ones read for
  /// less. Nothing if no cut fits, or if every run is long and read for one member alone.
  std::optional<FamilyCut> cut_of(std::span<const FamilyMember> members) const {
    std::vector<Priced<FamilyCut>> cuts;
    for (const int64_t size : family_sizes()) {
      std::optional<FamilyCut> cut = FamilyCut::make(program_, members, size);
      if (!cut) continue;
      const Tile tile = cut->tile(cut->count() / 2);
      const TileReads reads = read_tile(program_, tile, limits_);
      const double cost = cost_of_reads(reads);
      if (reads.bytes_read >= reads.bytes_needed && all_have_long_runs(members)) return {};
      if (cost <= static_cast<double>(reads.bytes_needed) * 1.1) return cut;
      cuts.emplace_back(*std::move(cut), cost / static_cast<double>(tile.made_bytes()));
    }
    if (cuts.empty()) return {};
    return first_good(cuts);
  }

  bool all_have_long_runs(std::span<const FamilyMember> members) const {
    return std::all_of(members.begin(), members.end(), [this](const FamilyMember& member) {
      return has_long_runs(program_.targets()[static_cast<size_t>(member.target)]);
    });
  }

  /// tile_bytes, then from there up, then from there down.
  std::vector<int64_t> family_sizes() const {
    const int64_t most = limits_.worker_bytes / 2;
    std::vector<int64_t> sizes;
    for (int64_t size = limits_.tile_bytes; size < most; size *= 2) sizes.push_back(size);
    sizes.push_back(most);
    for (int64_t size = limits_.tile_bytes / 2; size > limits_.tile_bytes / 32; size /= 2) {
      sizes.push_back(size);
    }
    return sizes;
  }

  const CopyProgram& program_;
  const ScheduleLimits& limits_;
  const std::function<void(const Tile&)>& visit_;
  Tile tile_;
  int64_t tile_end_ = 0;  // in the space of tile_
};

/// The targets that have bytes, by space and offset.
std::vector<FamilyMember> in_order(const CopyProgram& program,
                                   std::span<const Placement> placements) {
  std::vector<FamilyMember> targets;
  targets.reserve(placements.size());
  for (size_t i = 0; i < placements.size(); ++i) {
    if (program.targets()[i].size_bytes == 0) continue;
    targets.push_back({static_cast<int32_t>(i), placements[i]});
  }
  std::sort(targets.begin(), targets.end(), [](const FamilyMember& a, const FamilyMember& b) {
    return std::tuple(a.at.space, a.at.offset_bytes, a.target) <
           std::tuple(b.at.space, b.at.offset_bytes, b.target);
  });
  return targets;
}

using Families = std::unordered_map<int32_t, std::vector<FamilyMember>>;

/// Those of more than one member, which are to be cut together.
Families families_of(const CopyProgram& program, std::span<const FamilyMember> targets,
                     const ScheduleLimits& limits) {
  Families families;
  if (limits.families_apart) return families;
  for (const FamilyMember& target : targets) {
    const int32_t family = program.targets()[static_cast<size_t>(target.target)].family;
    if (family >= 0) families[family].push_back(target);
  }
  std::erase_if(families, [](const auto& family) { return family.second.size() < 2; });
  return families;
}

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

int64_t Tile::made_bytes() const noexcept {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.end_bytes - piece.begin_bytes;
  return bytes;
}

void for_each_tile(const CopyProgram& program, std::span<const Placement> placements,
                   const ScheduleLimits& limits, const std::function<void(const Tile&)>& visit) {
  const std::vector<FamilyMember> targets = in_order(program, placements);
  Families families = families_of(program, targets, limits);
  Scheduler scheduler(program, limits, visit);
  for (const FamilyMember& target : targets) {
    const auto family = families.find(program.targets()[static_cast<size_t>(target.target)].family);
    if (family == families.end()) {
      scheduler.add(target.target, target.at);
    } else if (family->second.front().target != target.target) {
      scheduler.close();  // what follows is beyond a member that was made with the first one
    } else if (!scheduler.add_family(family->second)) {
      families.erase(family);
      scheduler.add(target.target, target.at);
    }
  }
  scheduler.close();
}

std::vector<Tile> make_schedule(const CopyProgram& program, std::span<const Placement> placements,
                                const ScheduleLimits& limits) {
  std::vector<Tile> tiles;
  for_each_tile(program, placements, limits, [&](const Tile& tile) { tiles.push_back(tile); });
  return tiles;
}

}  // namespace weightloom
