#include "weightloom/layout/operations.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/layout/factor_clip.h"

namespace weightloom {
namespace {

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

int64_t checked_size(const Shape& shape, std::string_view operation) {
  const auto size = checked_elements(shape);
  if (!size) {
    misuse("{}: shape {} has a negative dim or more than 2^63-1 elements", operation,
           to_string(shape));
  }
  return *size;
}

size_t checked_dim(int dim, size_t dims, std::string_view operation) {
  if (dim < 0 || std::cmp_greater_equal(dim, dims)) {
    misuse("{}: dim {} is not in [0, {})", operation, dim, dims);
  }
  return static_cast<size_t>(dim);
}

/// Collects the regions of a result and holds them below kMaxRegions.
class RegionList {
 public:
  explicit RegionList(std::string_view operation) : operation_(operation) {}

  void reserve(size_t count) { regions_.reserve(count); }
  void add(Region region) {
    if (std::ssize(regions_) >= kMaxRegions) {
      throw Error(ErrorCode::plan,
                  fmt::format("{}: the result has more than {} regions", operation_, kMaxRegions));
    }
    regions_.push_back(std::move(region));
  }
  std::vector<Region> take() && { return std::move(regions_); }

 private:
  std::string_view operation_;
  std::vector<Region> regions_;
};

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

/// All regions split by m; those that need no splitting are moved.
std::vector<Region> factored(std::vector<Region> regions, int64_t m, std::string_view operation) {
  const auto is_whole = [m](const Region& region) { return is_factored(region, m); };
  if (std::ranges::all_of(regions, is_whole)) return regions;
  RegionList pieces(operation);
  pieces.reserve(regions.size());
  for (Region& region : regions) {
    if (is_factored(region, m)) {
      pieces.add(std::move(region));
    } else {
      for (Region& piece : factor(region, m)) pieces.add(std::move(piece));
    }
  }
  return std::move(pieces).take();
}

/// Moves a region factored by `from` into blocks of `to` elements, its remainder by `shift`.
Region reblocked(Region region, int64_t from, int64_t to, int64_t shift) {
  region.target_offset = region.target_offset / from * to + region.target_offset % from + shift;
  for (Axis& axis : region.axes) {
    if (axis.target_stride % from == 0) axis.target_stride = axis.target_stride / from * to;
  }
  return normalized(std::move(region));
}

std::vector<Region> regions_of(const Layout& layout) {
  return {layout.regions().begin(), layout.regions().end()};
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

/// Dims that travel together through a permutation, as one: `size` steps of `old_stride`.
struct DimGroup {
  size_t last_dim = 0;
  int64_t size = 1;
  int64_t old_stride = 1;
  int64_t new_stride = 1;
};

/// Groups in the order of the result. Neighbours that stay neighbours share a group; dims of size 1
/// are nowhere, so they part nobody.
std::vector<DimGroup> grouped(const Shape& shape, std::span<const int> order) {
  const std::vector<int64_t> strides = row_major_strides(shape);
  std::vector<DimGroup> groups;
  for (const int place : order) {
    const auto dim = static_cast<size_t>(place);
    if (shape[dim] == 1) continue;
    // The dims between are all of size 1 exactly if the outer stride is the inner block.
    if (!groups.empty() && groups.back().last_dim < dim &&
        groups.back().old_stride == shape[dim] * strides[dim]) {
      groups.back().last_dim = dim;
      groups.back().size *= shape[dim];
      groups.back().old_stride = strides[dim];
    } else {
      groups.push_back({dim, shape[dim], strides[dim], 1});
    }
  }
  for (size_t i = groups.size(); i-- > 1;) {
    groups[i - 1].new_stride = groups[i].new_stride * groups[i].size;
  }
  return groups;
}

/// A region factored by all groups' strides, with each offset and stride moved to its group's
/// place.
Region regrouped(Region region, std::span<const DimGroup> by_old_stride) {
  int64_t offset = 0;
  for (const DimGroup& group : by_old_stride) {
    offset += region.target_offset / group.old_stride % group.size * group.new_stride;
  }
  region.target_offset = offset;
  for (Axis& axis : region.axes) {
    const auto group = std::ranges::find_if(by_old_stride, [&](const DimGroup& candidate) {
      return candidate.old_stride <= axis.target_stride;
    });
    assert(group != by_old_stride.end() && axis.target_stride % group->old_stride == 0);
    axis.target_stride = axis.target_stride / group->old_stride * group->new_stride;
  }
  return normalized(std::move(region));
}

Shape permuted_shape(const Shape& shape, std::span<const int> order) {
  if (order.size() != shape.size()) {
    misuse("permute: an order of {} dims for a tensor of {} dims", order.size(), shape.size());
  }
  std::vector<bool> seen(shape.size(), false);
  Shape result;
  for (const int place : order) {
    const size_t dim = checked_dim(place, shape.size(), "permute");
    if (seen[dim]) misuse("permute: dim {} appears twice in the order", place);
    seen[dim] = true;
    result.push_back(shape[dim]);
  }
  return result;
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

Layout permute(const Layout& layout, std::span<const int> order) {
  Shape shape = permuted_shape(layout.shape(), order);
  if (layout.size() == 0) return Layout::unchecked(std::move(shape), {});
  std::vector<DimGroup> groups = grouped(layout.shape(), order);
  std::vector<Region> regions = regions_of(layout);
  if (groups.size() <= 1) return Layout::unchecked(std::move(shape), std::move(regions));
  std::ranges::sort(groups, std::greater<>(), &DimGroup::old_stride);
  for (const DimGroup& group : groups) {
    if (group.old_stride > 1) regions = factored(std::move(regions), group.old_stride, "permute");
  }
  for (Region& region : regions) {
    std::erase_if(region.axes, [](const Axis& axis) { return axis.extent == 1; });
    region = regrouped(std::move(region), groups);
  }
  return Layout::unchecked(std::move(shape), std::move(regions));
}

Layout transpose(const Layout& layout, int dim0, int dim1) {
  std::vector<int> order(layout.shape().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::swap(order[checked_dim(dim0, order.size(), "transpose")],
            order[checked_dim(dim1, order.size(), "transpose")]);
  return permute(layout, order);
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

Layout interleave(const Layout& layout, int dim, int64_t ways, bool inverse) {
  const Shape& shape = layout.shape();
  const size_t d = checked_dim(dim, shape.size(), "interleave");
  if (ways < 1 || shape[d] % ways != 0) {
    misuse("interleave: dim {} of {} does not divide into {} ways", dim, to_string(shape), ways);
  }
  const int64_t rows = shape[d] / ways;
  Shape two = shape;
  two[d] = inverse ? ways : rows;
  two.insert(two.begin() + dim + 1, inverse ? rows : ways);
  return reshape(transpose(reshape(layout, std::move(two)), dim, dim + 1), shape);
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
