// The operations of operations.h that change the order of dims.
#include <algorithm>
#include <cassert>
#include <functional>
#include <span>

#include "weightloom/layout/operation_support_internal.h"
#include "weightloom/layout/operations.h"

namespace weightloom {
namespace {

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

}  // namespace

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
    erase_if(region.axes, [](const Axis& axis) { return axis.extent == 1; });
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

}  // namespace weightloom
