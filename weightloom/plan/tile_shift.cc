#include <algorithm>
#include <optional>

#include "weightloom/plan/tile_shift_internal.h"

namespace weightloom {
namespace {

/// The only region that reaches into bytes [begin, end) of a target, if these lie in whole steps of
/// its outermost axis: before its first step and after its last one lies nothing of them. None of a
/// target that is computed: where blocks begin matters then.
const Region* only_region(const ProgramTarget& target, int64_t begin, int64_t end) {
  if (!target.disjoint_hulls || target.is_computed) return nullptr;
  auto next = std::ranges::upper_bound(target.regions, begin, {}, &Region::target_offset);
  if (next == target.regions.begin()) return nullptr;
  const Region& region = *(next - 1);
  if (region.axes.empty()) return nullptr;
  if (next != target.regions.end() && next->target_offset < end) return nullptr;
  const Axis& outer = region.axes.front();
  return end <= region.target_offset + outer.extent * outer.target_stride ? &region : nullptr;
}

bool have_equal_shapes(const Tile& a, const Tile& b) {
  return a.size_bytes == b.size_bytes && a.long_runs == b.long_runs &&
         std::ranges::equal(a.pieces, b.pieces, [](const Piece& x, const Piece& y) {
           return x.target == y.target && x.at_bytes == y.at_bytes &&
                  x.end_bytes - x.begin_bytes == y.end_bytes - y.begin_bytes;
         });
}

/// How far the source moves when a piece moves from `a` to `b`; nothing if the two are not alike.
std::optional<int64_t> source_shift(const Region* region, const Piece& a, const Piece& b) {
  const Axis& outer = region->axes.front();
  const int64_t distance = b.begin_bytes - a.begin_bytes;
  if (distance % outer.target_stride != 0) return std::nullopt;
  return distance / outer.target_stride * outer.source_stride;
}

}  // namespace

bool is_shifted(const CopyProgram& program, const Tile& a, const Tile& b) {
  if (!have_equal_shapes(a, b)) return false;
  std::optional<int64_t> shift;
  for (size_t i = 0; i < a.pieces.size(); ++i) {
    const ProgramTarget& target = program.targets()[static_cast<size_t>(a.pieces[i].target)];
    const Region* region = only_region(target, a.pieces[i].begin_bytes, a.pieces[i].end_bytes);
    if (region == nullptr ||
        region != only_region(target, b.pieces[i].begin_bytes, b.pieces[i].end_bytes)) {
      return false;
    }
    const auto mine = source_shift(region, a.pieces[i], b.pieces[i]);
    if (!mine) return false;
    if (region->is_pad()) continue;
    if (shift.value_or(*mine) != *mine) return false;
    shift = mine;
  }
  return true;
}

}  // namespace weightloom
