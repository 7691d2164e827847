#include "weightloom/layout/layout.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/layout/notation.h"

namespace weightloom {
namespace {

using Stride = int64_t Axis::*;

int64_t span_of(std::span<const Axis> axes, Stride stride) noexcept {
  int64_t span = 0;
  for (const Axis& axis : axes) span += (axis.extent - 1) * (axis.*stride);
  return span;
}

bool nested(std::span<const Axis> axes, Stride stride) {
  AxisList inner_first(axes);
  erase_if(inner_first, [](const Axis& axis) { return axis.extent == 1; });
  std::ranges::sort(inner_first, {}, stride);
  int64_t span = 0;
  for (const Axis& axis : inner_first) {
    if (axis.*stride <= span) return false;
    span += (axis.extent - 1) * (axis.*stride);
  }
  return true;
}

/// Offset of the last element on one side; nothing if it, or a number on the way, exceeds int64.
std::optional<int64_t> checked_last(int64_t offset, std::span<const Axis> axes, Stride stride) {
  std::optional<int64_t> last = offset;
  for (const Axis& axis : axes) {
    const auto span = checked_mul(axis.extent - 1, axis.*stride);
    last = span ? checked_add(*last, *span) : std::nullopt;
    if (!last) return std::nullopt;
  }
  return last;
}

bool has_negative_number(const Region& region) {
  return region.source < kPad || region.source_offset < 0 || region.target_offset < 0 ||
         std::ranges::any_of(
             region.axes,
             [](const Axis& axis) {
               return axis.extent < 1 || axis.target_stride < 0 || axis.source_stride < 0;
             });
}

bool pad_has_source_side(const Region& region) {
  return region.is_pad() &&
         (region.source_offset != 0 || std::ranges::any_of(region.axes, [](const Axis& axis) {
            return axis.source_stride != 0;
          }));
}

/// What is wrong with a region of a tensor of `size` elements; empty if nothing.
std::string misfit(const Region& region, int64_t size) {
  if (has_negative_number(region)) return "has a negative number or an extent below 1";
  if (pad_has_source_side(region)) return "is a pad, but has offsets or strides of a source";
  const auto target_last = checked_last(region.target_offset, region.axes, &Axis::target_stride);
  if (!target_last || *target_last >= size) {
    return fmt::format("ends outside of a tensor of {} elements", size);
  }
  if (!checked_last(region.source_offset, region.axes, &Axis::source_stride)) {
    return "has source offsets beyond 64 bits";
  }
  if (!nested_on_target(region)) return "has target strides that are not nested";
  if (!region.is_pad() && !nested_on_source(region)) {
    return "has source strides that are not nested";
  }
  return "";
}

bool walk_as_one(const Axis& outer, const Axis& inner) noexcept {
  return outer.target_stride == inner.extent * inner.target_stride &&
         outer.source_stride == inner.extent * inner.source_stride;
}

}  // namespace

int64_t volume(const Region& region) noexcept {
  int64_t product = 1;
  for (const Axis& axis : region.axes) product *= axis.extent;
  return product;
}

int64_t target_span(const Region& region) noexcept {
  return span_of(region.axes, &Axis::target_stride);
}

int64_t source_span(const Region& region) noexcept {
  return span_of(region.axes, &Axis::source_stride);
}

bool nested_on_target(const Region& region) { return nested(region.axes, &Axis::target_stride); }

bool nested_on_source(const Region& region) { return nested(region.axes, &Axis::source_stride); }

Region normalized(Region region) {
  AxisList& axes = region.axes;
  if (axes.size() == 1 && axes[0].extent != 1) return region;
  erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  std::ranges::sort(axes, std::greater<>(), &Axis::target_stride);
  size_t kept = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (kept > 0 && walk_as_one(axes[kept - 1], axes[i])) {
      const int64_t outer_extent = axes[kept - 1].extent;
      axes[kept - 1] = axes[i];
      axes[kept - 1].extent *= outer_extent;
    } else {
      axes[kept++] = axes[i];
    }
  }
  axes.resize(kept);
  return region;
}

Layout::Layout(Shape shape, std::vector<Region> regions)
    : shape_(std::move(shape)), regions_(std::move(regions)) {}

Layout Layout::make(Shape shape, std::vector<Region> regions) {
  const auto size = checked_elements(shape);
  if (!size) {
    throw Error(ErrorCode::usage,
                fmt::format("layout: shape {} has a negative dim or more than 2^63-1 elements",
                            to_string(shape)));
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    if (const std::string fault = misfit(regions[i], *size); !fault.empty()) {
      throw Error(ErrorCode::usage, fmt::format("layout {}: region {}, {}, {}", to_string(shape), i,
                                                to_string(regions[i]), fault));
    }
    regions[i] = normalized(std::move(regions[i]));
  }
  return Layout(std::move(shape), std::move(regions));
}

Layout Layout::unchecked(Shape shape, std::vector<Region> regions) {
  assert(checked_elements(shape));
  return Layout(std::move(shape), std::move(regions));
}

}  // namespace weightloom
