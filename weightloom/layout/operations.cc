#include "weightloom/layout/operations.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "weightloom/base/checked.h"
#include "weightloom/layout/factor_clip.h"
#include "weightloom/layout/operation_support_internal.h"

namespace weightloom {
namespace {

/// A dim as linear offsets see it: rows of `stride` elements, `rows` of them in each block, and
/// whether there is but one block, so that no offset can carry out of it.
struct DimGeometry {
  int64_t stride = 1;
  int64_t rows = 1;
  bool outermost = true;

  int64_t block() const noexcept { return stride * rows; }
};

DimGeometry geometry(const Shape& shape, size_t dim) {
  const std::span<const int64_t> sizes(shape);
  return {elements(sizes.subspan(dim + 1)), sizes[dim], elements(sizes.first(dim)) == 1};
}

/// Moves a region factored by `from` into blocks of `to` elements, its remainder by `shift`.
Region reblocked(Region region, int64_t from, int64_t to, int64_t shift) {
  region.target_offset = region.target_offset / from * to + region.target_offset % from + shift;
  for (Axis& axis : region.axes) {
    if (axis.target_stride % from == 0) axis.target_stride = axis.target_stride / from * to;
  }
  return normalized(std::move(region));
}

/// Rows [begin, end) of a dim, from regions that are already factored by its block.
Layout rows_of(std::span<const Region> factored_regions, const DimGeometry& dim, Shape shape,
               int64_t begin, int64_t end) {
  if (elements(shape) == 0) return Layout::unchecked(std::move(shape), {});
  RegionList rows("slice");
  for (const Region& region : factored_regions) {
    for (Region& part : clip(region, dim.block(), begin * dim.stride, end * dim.stride)) {
      rows.add(
          reblocked(std::move(part), dim.block(), (end - begin) * dim.stride, -begin * dim.stride));
    }
  }
  return Layout::unchecked(std::move(shape), std::move(rows).take());
}

std::vector<Region> factored_by_dim(const Layout& layout, const DimGeometry& dim,
                                    std::string_view operation) {
  std::vector<Region> regions = regions_of(layout);
  if (dim.outermost || regions.empty()) return regions;
  return factored(std::move(regions), dim.block(), operation);
}

/// Adds `part`, whose offsets come in blocks of `from`, to blocks of `to` elements at `shift`.
void place(RegionList& result, const Layout& part, int64_t from, int64_t to, int64_t shift,
           bool outermost) {
  for (const Region& region : part.regions()) {
    if (outermost) {
      Region moved = region;
      moved.target_offset += shift;
      result.add(std::move(moved));
    } else if (is_factored(region, from)) {
      result.add(reblocked(region, from, to, shift));
    } else {
      for (Region& piece : factor(region, from)) {
        result.add(reblocked(std::move(piece), from, to, shift));
      }
    }
  }
}

size_t region_count(std::span<const Layout> parts) {
  size_t count = 0;
  for (const Layout& part : parts) count += part.regions().size();
  return count;
}

bool equal_but_for(const Shape& a, const Shape& b, size_t dim) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (i != dim && a[i] != b[i]) return false;
  }
  return true;
}

Shape concat_shape(std::span<const Layout> parts, size_t dim) {
  Shape shape = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!equal_but_for(parts[i].shape(), shape, dim)) {
      misuse("concat along dim {}: part {} has shape {}, part 0 has {}", dim, i,
             to_string(parts[i].shape()), to_string(parts[0].shape()));
    }
    const auto rows = checked_add(shape[dim], parts[i].shape()[dim]);
    if (!rows) misuse("concat along dim {}: the sizes add up beyond 64 bits", dim);
    shape[dim] = *rows;
  }
  checked_size(shape, "concat");
  return shape;
}

Layout filled(SourceId source, int64_t pad_value, Shape shape, std::string_view operation) {
  const int64_t size = checked_size(shape, operation);
  std::vector<Region> regions;
  if (size > 0) {
    Region& region = regions.emplace_back();
    region.source = source;
    region.pad_value = pad_value;
    if (size > 1) region.axes.push_back({size, 1, source == kPad ? 0 : 1});
  }
  return Layout::unchecked(std::move(shape), std::move(regions));
}

}  // namespace

Layout identity(SourceId source, Shape shape) {
  if (source < 0) misuse("identity: source {} is negative", source);
  return filled(source, 0, std::move(shape), "identity");
}

Layout constant(int64_t pad_value, Shape shape) {
  return filled(kPad, pad_value, std::move(shape), "constant");
}

Layout reshape(Layout layout, Shape shape) {
  if (checked_size(shape, "reshape") != layout.size()) {
    misuse("reshape: {} has {} elements, {} has {}", to_string(layout.shape()), layout.size(),
           to_string(shape), elements(shape));
  }
  return Layout::unchecked(std::move(shape), std::move(layout).regions());
}

Layout slice(const Layout& layout, int dim, int64_t begin, int64_t end) {
  const size_t d = checked_dim(dim, layout.shape().size(), "slice");
  const int64_t rows = layout.shape()[d];
  if (begin < 0 || begin > end || end > rows) {
    misuse("slice: rows [{}, {}) of dim {} are not in [0, {})", begin, end, dim, rows);
  }
  if (begin == 0 && end == rows) return layout;
  Shape shape = layout.shape();
  shape[d] = end - begin;
  if (elements(shape) == 0) return Layout::unchecked(std::move(shape), {});
  const DimGeometry cut = geometry(layout.shape(), d);
  if (cut.outermost) return rows_of(layout.regions(), cut, std::move(shape), begin, end);
  return rows_of(factored_by_dim(layout, cut, "slice"), cut, std::move(shape), begin, end);
}

Layout concat(std::span<const Layout> parts, int dim) {
  if (parts.empty()) misuse("concat along dim {}: no parts", dim);
  const size_t d = checked_dim(dim, parts[0].shape().size(), "concat");
  Shape shape = concat_shape(parts, d);
  const DimGeometry whole = geometry(shape, d);
  RegionList result("concat");
  result.reserve(region_count(parts));
  int64_t row = 0;
  for (const Layout& part : parts) {
    const int64_t rows = part.shape()[d];
    place(result, part, rows * whole.stride, whole.block(), row * whole.stride, whole.outermost);
    row += rows;
  }
  return Layout::unchecked(std::move(shape), std::move(result).take());
}

Layout stack(std::span<const Layout> parts, int dim) {
  if (parts.empty()) misuse("stack before dim {}: no parts", dim);
  Shape shape = parts[0].shape();
  const size_t d = checked_dim(dim, shape.size() + 1, "stack");
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].shape() != shape) {
      misuse("stack before dim {}: part {} has shape {}, part 0 has {}", dim, i,
             to_string(parts[i].shape()), to_string(shape));
    }
  }
  shape.insert(shape.begin() + dim, std::ssize(parts));
  checked_size(shape, "stack");
  const DimGeometry whole = geometry(shape, d);
  RegionList result("stack");
  result.reserve(region_count(parts));
  int64_t offset = 0;
  for (const Layout& part : parts) {
    place(result, part, whole.stride, whole.block(), offset, whole.outermost);
    offset += whole.stride;
  }
  return Layout::unchecked(std::move(shape), std::move(result).take());
}

std::vector<Layout> unstack(const Layout& layout, int dim) {
  const size_t d = checked_dim(dim, layout.shape().size(), "unstack");
  const int64_t rows = layout.shape()[d];
  if (rows > kMaxRegions) {
    throw Error(ErrorCode::plan, fmt::format("unstack: dim {} of {} makes more than {} tensors",
                                             dim, to_string(layout.shape()), kMaxRegions));
  }
  const std::vector<int64_t> ones(static_cast<size_t>(rows), 1);
  Shape shape = layout.shape();
  shape.erase(shape.begin() + dim);
  std::vector<Layout> parts = split(layout, dim, ones);
  for (Layout& part : parts) part = reshape(std::move(part), shape);
  return parts;
}

std::vector<Layout> split(const Layout& layout, int dim, std::span<const int64_t> sizes) {
  const size_t d = checked_dim(dim, layout.shape().size(), "split");
  const int64_t rows = layout.shape()[d];
  int64_t rest = rows;
  for (const int64_t size : sizes) {
    if (size < 0 || size > rest) {
      misuse("split: sizes {} do not add up to dim {} of {}", to_string(sizes), dim,
             to_string(layout.shape()));
    }
    rest -= size;
  }
  if (rest != 0) {
    misuse("split: sizes {} leave {} rows of dim {} of {}", to_string(sizes), rest, dim,
           to_string(layout.shape()));
  }
  const DimGeometry cut = geometry(layout.shape(), d);
  const std::vector<Region> regions = factored_by_dim(layout, cut, "split");
  std::vector<Layout> parts;
  parts.reserve(sizes.size());
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    Shape shape = layout.shape();
    shape[d] = size;
    parts.push_back(rows_of(regions, cut, std::move(shape), begin, begin + size));
    begin += size;
  }
  return parts;
}

Layout pad(const Layout& layout, int dim, int64_t before, int64_t after, int64_t pad_value) {
  const size_t d = checked_dim(dim, layout.shape().size(), "pad");
  if (before < 0 || after < 0) {
    misuse("pad: {} rows before and {} after dim {}; both must be 0 or more", before, after, dim);
  }
  Shape head = layout.shape();
  Shape tail = layout.shape();
  head[d] = before;
  tail[d] = after;
  const std::array<Layout, 3> parts = {constant(pad_value, std::move(head)), layout,
                                       constant(pad_value, std::move(tail))};
  return concat(parts, dim);
}

}  // namespace weightloom
