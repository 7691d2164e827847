#include "weightloom/layout/coalesce.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weightloom {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

/// True if the axes of a without place i are those of b without place j (kNone: with all).
bool equal_without(const AxisList& a, size_t i, const AxisList& b, size_t j) {
  size_t y = 0;
  for (size_t x = 0; x < a.size(); ++x) {
    if (x == i) continue;
    if (y == j) ++y;
    if (y >= b.size() || a[x] != b[y]) return false;
    ++y;
  }
  return (y == j ? y + 1 : y) == b.size();
}

/// The axis that leads through a's steps and on into b's, if one place of each (kNone: a single
/// step) is that axis.
std::optional<Axis> continued(const Region& a, size_t i, const Region& b, size_t j) {
  const int64_t steps = i == kNone ? 1 : a.axes[i].extent;
  const int64_t target_distance = b.target_offset - a.target_offset;
  const int64_t source_distance = b.source_offset - a.source_offset;
  if (target_distance % steps != 0 || source_distance % steps != 0) return std::nullopt;
  const Axis axis{steps + (j == kNone ? 1 : b.axes[j].extent), target_distance / steps,
                  source_distance / steps};
  const auto differs = [&](const Axis& other) {
    return other.target_stride != axis.target_stride || other.source_stride != axis.source_stride;
  };
  if (i != kNone && differs(a.axes[i])) return std::nullopt;
  if (j != kNone && differs(b.axes[j])) return std::nullopt;
  if (axis.target_stride <= 0 || axis.source_stride < 0) return std::nullopt;
  return axis;
}

bool holds_invariant(const Region& region) {
  return nested_on_target(region) && (region.is_pad() || nested_on_source(region));
}

std::optional<Region> joined_at(const Region& a, size_t i, const Region& b, size_t j) {
  if (!equal_without(a.axes, i, b.axes, j)) return std::nullopt;
  const std::optional<Axis> axis = continued(a, i, b, j);
  if (!axis) return std::nullopt;
  Region region = a;
  if (i == kNone) {
    region.axes.push_back(*axis);
  } else {
    region.axes[i] = *axis;
  }
  region = normalized(std::move(region));
  if (!holds_invariant(region)) return std::nullopt;
  return region;
}

/// One region that says a and then b. Their axes are the same but for one, along which b goes on.
std::optional<Region> joined(const Region& a, const Region& b) {
  if (a.source != b.source || a.pad_value != b.pad_value) return std::nullopt;
  const size_t m = a.axes.size();
  const size_t n = b.axes.size();
  if (m == n) {
    if (auto region = joined_at(a, kNone, b, kNone)) return region;
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (auto region = joined_at(a, i, b, j)) return region;
      }
    }
  } else if (m == n + 1) {
    for (size_t i = 0; i < m; ++i) {
      if (auto region = joined_at(a, i, b, kNone)) return region;
    }
  } else if (n == m + 1) {
    for (size_t j = 0; j < n; ++j) {
      if (auto region = joined_at(a, kNone, b, j)) return region;
    }
  }
  return std::nullopt;
}

/// Sorts places instead of regions, which are large.
std::vector<Region> sorted_by_target(std::vector<Region> regions) {
  if (std::ranges::is_sorted(regions, {}, &Region::target_offset)) return regions;
  std::vector<std::pair<int64_t, size_t>> order;
  order.reserve(regions.size());
  for (const Region& region : regions) order.emplace_back(region.target_offset, order.size());
  std::ranges::sort(order);
  std::vector<Region> sorted;
  sorted.reserve(regions.size());
  for (const auto& [offset, place] : order) sorted.push_back(std::move(regions[place]));
  return sorted;
}

}  // namespace

std::vector<Region> coalesce(std::vector<Region> regions) {
  regions = sorted_by_target(std::move(regions));
  size_t kept = 0;
  for (Region& next : regions) {
    Region region = normalized(std::move(next));
    // A joined region may in turn continue the one before it.
    while (kept > 0) {
      auto with_previous = joined(regions[kept - 1], region);
      if (!with_previous) break;
      region = std::move(*with_previous);
      --kept;
    }
    regions[kept++] = std::move(region);
  }
  regions.resize(kept);
  return regions;
}

}  // namespace weightloom
