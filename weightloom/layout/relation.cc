#include "weightloom/layout/relation.h"

#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

/// What `region` of target `target` gives to its source: the same pairs, read from the other side.
Region swapped(const Region& region, SourceId target) {
  Region result;
  result.source = target;
  result.source_offset = region.target_offset;
  result.target_offset = region.source_offset;
  result.axes.reserve(region.axes.size());
  for (const Axis& axis : region.axes) {
    result.axes.push_back({axis.extent, axis.source_stride, axis.target_stride});
  }
  return normalized(std::move(result));
}

/// The regions of the inverse: by source those that read it, by target its pads.
struct Sides {
  std::vector<std::vector<Region>> readers;
  std::vector<std::vector<Region>> pads;
};

Sides sorted_out(const Relation& relation) {
  Sides sides{std::vector<std::vector<Region>>(relation.sources.size()),
              std::vector<std::vector<Region>>(relation.targets.size())};
  for (size_t target = 0; target < relation.targets.size(); ++target) {
    for (const Region& region : relation.targets[target].regions()) {
      if (region.is_pad()) {
        sides.pads[target].push_back(region);
        continue;
      }
      if (region.source < 0 || std::cmp_greater_equal(region.source, relation.sources.size())) {
        throw Error(ErrorCode::usage,
                    fmt::format("invert: target {} reads source {}, but there are {} sources",
                                target, region.source, relation.sources.size()));
      }
      sides.readers[static_cast<size_t>(region.source)].push_back(
          swapped(region, static_cast<SourceId>(target)));
    }
  }
  return sides;
}

}  // namespace

Relation invert(const Relation& relation) {
  if (relation.drops.size() > relation.sources.size()) {
    throw Error(ErrorCode::usage, fmt::format("invert: {} lists of drops for {} sources",
                                              relation.drops.size(), relation.sources.size()));
  }
  Sides sides = sorted_out(relation);
  Relation inverse;
  inverse.sources.reserve(relation.targets.size());
  for (const Layout& target : relation.targets) inverse.sources.push_back(target.shape());
  inverse.targets.reserve(relation.sources.size());
  for (size_t source = 0; source < relation.sources.size(); ++source) {
    std::vector<Region>& regions = sides.readers[source];
    if (source < relation.drops.size()) {
      regions.insert(regions.end(), relation.drops[source].begin(), relation.drops[source].end());
    }
    std::ranges::sort(regions, {}, &Region::target_offset);
    inverse.targets.push_back(Layout::unchecked(relation.sources[source], std::move(regions)));
  }
  inverse.drops = std::move(sides.pads);
  return inverse;
}

}  // namespace weightloom
