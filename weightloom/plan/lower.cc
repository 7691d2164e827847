#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/coalesce.h"
#include "weightloom/layout/notation.h"
#include "weightloom/plan/lower_internal.h"

namespace weightloom {
namespace {

bool whole_bytes(int64_t count, int width_bits) { return count * width_bits % 8 == 0; }

bool is_unit(const Axis& axis) { return axis.target_stride == 1 && axis.source_stride <= 1; }

/// True if a region of a sub-byte type starts, runs and steps by whole bytes on both sides.
bool on_byte_bounds(const Region& region, int width_bits) {
  if (!whole_bytes(region.source_offset, width_bits)) return false;
  if (!whole_bytes(region.target_offset, width_bits)) return false;
  bool has_unit = false;
  for (const Axis& axis : region.axes) {
    if (is_unit(axis)) {
      has_unit = whole_bytes(axis.extent, width_bits);
      continue;
    }
    if (!whole_bytes(axis.target_stride, width_bits)) return false;
    if (!whole_bytes(axis.source_stride, width_bits)) return false;
  }
  return has_unit;
}

/// Units: elements of `width_bits` → bytes. Precondition: on_byte_bounds for sub-byte types.
Region to_bytes(Region region, int width_bits) {
  region.source_offset = region.source_offset * width_bits / 8;
  region.target_offset = region.target_offset * width_bits / 8;
  const bool pad = region.is_pad();
  for (Axis& axis : region.axes) {
    if (width_bits < 8 && is_unit(axis)) {
      axis.extent = axis.extent * width_bits / 8;
      continue;
    }
    axis.target_stride = axis.target_stride * width_bits / 8;
    axis.source_stride = axis.source_stride * width_bits / 8;
  }
  if (width_bits > 8) region.axes.push_back({width_bits / 8, 1, pad ? 0 : 1});
  return normalized(std::move(region));
}

/// Units: elements → bytes of either side; the points stay elements.
Region to_cast(Region region, int64_t target_bytes, int64_t source_bytes) {
  region.target_offset *= target_bytes;
  region.source_offset *= source_bytes;
  for (Axis& axis : region.axes) {
    axis.target_stride *= target_bytes;
    axis.source_stride *= source_bytes;
  }
  return normalized(std::move(region));
}

std::optional<std::string> refusal_of(const Region& region, DType dtype) {
  if (region.is_pad() && (region.pad_value != 0 || dtype == DType::F8_E8M0)) {
    return fmt::format("padding with {} has no all-zero encoding in {}", region.pad_value,
                       to_string(dtype));
  }
  if (bits(dtype) < 8 && !on_byte_bounds(region, bits(dtype))) {
    return fmt::format("the cut {} falls inside a byte of {} ({} bits an element)",
                       to_string(region), to_string(dtype), bits(dtype));
  }
  return std::nullopt;
}

}  // namespace

Lowered lower_to_bytes(Layout layout, DType dtype) {
  return lower_to_bytes(std::move(layout), dtype, [dtype](SourceId) { return dtype; });
}

Lowered lower_to_bytes(Layout layout, DType dtype,
                       const std::function<DType(SourceId)>& source_dtype) {
  Lowered result;
  result.regions = coalesce(std::move(layout).regions());
  for (Region& region : result.regions) {
    if (auto refusal = refusal_of(region, dtype)) {
      result.refusal = std::move(refusal);
      return result;
    }
    const DType from = region.is_pad() ? dtype : source_dtype(region.source);
    region = from == dtype ? to_bytes(std::move(region), bits(dtype))
                           : to_cast(std::move(region), bits(dtype) / 8, bits(from) / 8);
  }
  return result;
}

}  // namespace weightloom
