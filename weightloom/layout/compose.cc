#include "weightloom/layout/compose.h"

#include <algorithm>
#include <utility>

#include "weightloom/base/checked.h"
#include "weightloom/layout/factor_clip.h"
#include "weightloom/layout/operation_support_internal.h"

namespace weightloom {
namespace {

/// An axis of the outer region, by its stride in the source.
std::vector<Axis> by_source_stride(const Region& region) {
  std::vector<Axis> axes(region.axes.begin(), region.axes.end());
  std::ranges::sort(axes, std::greater<>(), &Axis::source_stride);
  return axes;
}

/// A piece of an inner region on its way into the outer's coordinates: the axes in `rest` still
/// walk the inner target within a block, those in `done` walk the outer target.
struct Passing {
  Region rest;
  std::vector<Axis> done;
  int64_t target_offset = 0;
};

/// Takes what `piece` has in rows [0, outer.extent) of stride outer.source_stride, and turns steps
/// over whole rows into steps of the outer target.
void pass_axis(const Passing& piece, const Axis& outer, std::vector<Passing>& to) {
  const int64_t m = outer.source_stride;
  for (const Region& row : factor(piece.rest, m)) {
    Passing next{row, piece.done, piece.target_offset};
    next.target_offset += row.target_offset / m * outer.target_stride;
    next.rest.target_offset = row.target_offset % m;
    next.rest.axes.clear();
    for (const Axis& axis : row.axes) {
      if (axis.target_stride % m != 0) {
        next.rest.axes.push_back(axis);
      } else {
        next.done.push_back(
            {axis.extent, axis.target_stride / m * outer.target_stride, axis.source_stride});
      }
    }
    to.push_back(std::move(next));
  }
}

/// The part of a region whose target lies in [lo, hi).
std::vector<Region> clipped(const Region& region, int64_t size, int64_t lo, int64_t hi) {
  return clip(region, std::max<int64_t>(size, 1), lo, hi);
}

/// What outer region `through` takes from inner region `from`, whose target has `size` elements.
void compose_pair(const Region& through, const Region& from, int64_t size, RegionList& result) {
  const int64_t begin = through.source_offset;
  const int64_t end = begin + source_span(through) + 1;
  std::vector<Passing> passing;
  for (Region& part : clipped(from, size, begin, end)) {
    part.target_offset -= begin;
    passing.push_back({std::move(part), {}, through.target_offset});
  }
  const std::vector<Axis> axes = by_source_stride(through);
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<Passing> next;
    // Within a block of this axis only what the smaller axes reach is taken.
    int64_t reach = 1;
    for (size_t j = i + 1; j < axes.size(); ++j) {
      reach += (axes[j].extent - 1) * axes[j].source_stride;
    }
    for (const Passing& piece : passing) pass_axis(piece, axes[i], next);
    passing.clear();
    for (Passing& piece : next) {
      for (Region& part : clipped(piece.rest, axes[i].source_stride, 0, reach)) {
        passing.push_back({std::move(part), piece.done, piece.target_offset});
      }
    }
  }
  for (Passing& piece : passing) {
    Region made = std::move(piece.rest);
    made.target_offset = piece.target_offset;
    for (const Axis& axis : piece.done) made.axes.push_back(axis);
    result.add(normalized(std::move(made)));
  }
}

}  // namespace

Layout compose(const Layout& outer, std::span<const Layout> inner) {
  RegionList result("compose");
  for (const Region& through : outer.regions()) {
    if (through.is_pad()) {
      result.add(through);
      continue;
    }
    if (through.source >= std::ssize(inner)) {
      misuse("compose: source {} of {} is not there", through.source, inner.size());
    }
    const Layout& from = inner[static_cast<size_t>(through.source)];
    if (through.source_offset + source_span(through) >= from.size()) {
      misuse("compose: element {} of source {} {} is not there",
             through.source_offset + source_span(through), through.source, to_string(from.shape()));
    }
    for (const Region& region : from.regions()) compose_pair(through, region, from.size(), result);
  }
  return Layout::unchecked(outer.shape(), std::move(result).take());
}

}  // namespace weightloom
