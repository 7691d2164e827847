#include "weightloom/cli/tensor_box.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weightloom::cli {
namespace {

/// Dims of the bytes of a tensor; a scalar is a row of its bytes.
Shape byte_dims(DType dtype, const Shape& shape) {
  Shape dims = shape;
  if (dims.empty()) dims.push_back(1);
  dims.back() = dims.back() * bits(dtype) / 8;
  return dims;
}

auto as_tuple(const Interval& interval) { return std::tie(interval.begin, interval.end); }

bool lies_before(const Box& a, const Box& b) {
  return std::ranges::lexicographical_compare(
      a.dims, b.dims,
      [](const Interval& x, const Interval& y) { return as_tuple(x) < as_tuple(y); });
}

int64_t volume_of(std::span<const Interval> dims) {
  int64_t bytes = 1;
  for (const Interval& dim : dims) bytes *= dim.size();
  return bytes;
}

/// The intervals that a walk from `offset` visits which spans `spans[d]` steps of dim d.
std::vector<Interval> intervals_of(int64_t offset, std::vector<int64_t> spans, const Shape& dims) {
  std::vector<Interval> intervals(dims.size());
  int64_t carry = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t begin = offset % dims[d];
    const int64_t last = begin + spans[d] + carry;
    offset /= dims[d];
    carry = last / dims[d];
    intervals[d] = carry > 0 ? Interval{0, dims[d]} : Interval{begin, last + 1};
  }
  return intervals;
}

/// The box of both, if it holds nothing else: they differ in one dim and touch there.
bool join(Box& box, const Box& next) {
  if (box.is_partial() || next.is_partial()) return false;
  size_t differing = 0;
  size_t dim = 0;
  for (size_t d = 0; d < box.dims.size(); ++d) {
    if (box.dims[d] == next.dims[d]) continue;
    ++differing;
    dim = d;
  }
  if (differing != 1 || box.dims[dim].end != next.dims[dim].begin) return false;
  box.dims[dim].end = next.dims[dim].end;
  box.bytes += next.bytes;
  return true;
}

void widen(Box& box, const Box& other) {
  for (size_t d = 0; d < box.dims.size(); ++d) {
    box.dims[d].begin = std::min(box.dims[d].begin, other.dims[d].begin);
    box.dims[d].end = std::max(box.dims[d].end, other.dims[d].end);
  }
  box.bytes += other.bytes;
}

Box hull_of(std::span<const Box> boxes) {
  Box hull = boxes.front();
  for (const Box& box : boxes.subspan(1)) widen(hull, box);
  return hull;
}

/// What is meant in part becomes one box, which may turn out to be meant whole.
std::vector<Box> with_parts_joined(std::vector<Box> boxes) {
  const auto parts =
      std::partition(boxes.begin(), boxes.end(), [](const Box& box) { return !box.is_partial(); });
  if (parts == boxes.end()) return boxes;
  const Box hull = hull_of(std::span(parts, boxes.end()));
  boxes.erase(parts, boxes.end());
  boxes.push_back(hull);
  std::ranges::sort(boxes, lies_before);
  return boxes;
}

}  // namespace

bool Box::is_partial() const noexcept { return bytes < volume_of(dims); }

Box box_of(const Region& region, RegionSide side, int64_t point_bytes, DType dtype,
           const Shape& shape) {
  const Shape dims = byte_dims(dtype, shape);
  const bool is_source = side == RegionSide::source;
  const std::vector<int64_t> strides = row_major_strides(dims);
  std::vector<int64_t> spans(dims.size(), 0);
  spans.back() = point_bytes - 1;
  for (const Axis& axis : region.axes) {
    int64_t span = (axis.extent - 1) * (is_source ? axis.source_stride : axis.target_stride);
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t stride = is_source ? axis.source_stride : axis.target_stride;
      if (stride < strides[d] && d + 1 < dims.size()) continue;
      spans[d] += span / strides[d];
      break;
    }
  }
  Box box;
  box.dims =
      intervals_of(is_source ? region.source_offset : region.target_offset, std::move(spans), dims);
  box.bytes = volume(region) * point_bytes;
  return box;
}

std::vector<Box> joined(std::vector<Box> boxes, size_t most) {
  if (boxes.empty()) return boxes;
  std::ranges::sort(boxes, lies_before);
  std::vector<Box> result;
  for (Box& box : with_parts_joined(std::move(boxes))) {
    if (result.empty() || !join(result.back(), box)) result.push_back(std::move(box));
  }
  if (result.size() > most) return {hull_of(result)};
  return result;
}

Patch patch_of(const Box& box, DType dtype, const Shape& shape) {
  const Shape dims = byte_dims(dtype, shape);
  Patch patch;
  for (size_t d = 0; d < dims.size(); ++d) {
    double& low = d == 0 ? patch.left : patch.top;
    double& high = d == 0 ? patch.right : patch.bottom;
    const double step = (high - low) / static_cast<double>(dims[d]);
    high = low + step * static_cast<double>(box.dims[d].end);
    low += step * static_cast<double>(box.dims[d].begin);
  }
  return patch;
}

std::string slice_text(const Box& box, DType dtype, const Shape& shape) {
  std::vector<std::string> slices;
  for (size_t d = 0; d < shape.size(); ++d) {
    Interval slice = box.dims[d];
    if (d + 1 == shape.size()) {
      slice = {slice.begin * 8 / bits(dtype), slice.end * 8 / bits(dtype)};
    }
    const bool is_all = slice.begin == 0 && slice.end == shape[d];
    slices.push_back(is_all ? ":" : fmt::format("{}:{}", slice.begin, slice.end));
  }
  return fmt::format("[{}]", fmt::join(slices, ", "));
}

}  // namespace weightloom::cli
