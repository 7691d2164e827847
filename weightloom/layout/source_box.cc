#include "weightloom/layout/source_box.h"

#include <utility>

#include "weightloom/layout/factor_clip.h"

namespace weightloom {
namespace {

/// The region with its sides exchanged: what factor() looks at is the source then.
Region turned(Region region) {
  std::swap(region.target_offset, region.source_offset);
  for (Axis& axis : region.axes) std::swap(axis.target_stride, axis.source_stride);
  return region;
}

/// The dim that a step of `stride` elements goes along: the outermost whose rows it is made of.
size_t dim_of(int64_t stride, const Shape& strides) {
  size_t dim = 0;
  while (stride % strides[dim] != 0 || stride < strides[dim]) ++dim;
  return dim;
}

Box tight_box(const Region& region, const Shape& source, const Shape& strides) {
  Box box;
  for (size_t d = 0; d < source.size(); ++d) {
    const int64_t at = region.source_offset / strides[d] % source[d];
    box.push_back({at, at + 1});
  }
  for (const Axis& axis : region.axes) {
    const size_t dim = dim_of(axis.source_stride, strides);
    box[dim].end += (axis.extent - 1) * (axis.source_stride / strides[dim]);
  }
  return box;
}

}  // namespace

int64_t volume(const Box& box) noexcept {
  int64_t size = 1;
  for (const Interval& interval : box) size *= interval.size();
  return size;
}

std::vector<BoxedRegion> source_boxes(const Region& region, const Shape& source) {
  const Shape strides = row_major_strides(source);
  std::vector<Region> parts{turned(region)};
  for (size_t d = 0; d + 1 < source.size(); ++d) {
    std::vector<Region> next;
    for (const Region& part : parts) {
      for (Region& piece : factor(part, strides[d])) next.push_back(std::move(piece));
    }
    parts = std::move(next);
  }
  std::vector<BoxedRegion> boxed;
  for (Region& part : parts) {
    Region back = turned(std::move(part));
    Box box = tight_box(back, source, strides);
    boxed.push_back({std::move(back), std::move(box)});
  }
  return boxed;
}

Region within_box(const Region& part, const Shape& source, std::span<const Interval> box) {
  const Shape strides = row_major_strides(source);
  Shape sizes;
  for (const Interval& interval : box) sizes.push_back(interval.size());
  const Shape steps = row_major_strides(sizes);
  Region result = part;
  result.source_offset = 0;
  for (size_t d = 0; d < source.size(); ++d) {
    const int64_t at = part.source_offset / strides[d] % source[d];
    result.source_offset += (at - box[d].begin) * steps[d];
  }
  for (Axis& axis : result.axes) {
    const size_t dim = dim_of(axis.source_stride, strides);
    axis.source_stride = axis.source_stride / strides[dim] * steps[dim];
  }
  return result;
}

}  // namespace weightloom
