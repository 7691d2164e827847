#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/sharding/world_mesh_internal.h"

namespace weightloom::internal {
namespace {

std::string free_name(const std::vector<WorldAxis>& axes) {
  std::string name = "replica";
  for (int i = 2; std::ranges::find(axes, name, &WorldAxis::name) != axes.end(); ++i) {
    name = fmt::format("replica{}", i);
  }
  return name;
}

}  // namespace

Mesh WorldMesh::mesh() const {
  std::vector<MeshAxis> plain;
  for (const WorldAxis& axis : axes) plain.push_back({axis.name, axis.size});
  return Mesh::make(std::move(plain));
}

bool WorldMesh::has(const std::vector<WorldAxis>& some) const {
  return std::ranges::all_of(
      some, [&](const WorldAxis& axis) { return std::ranges::find(axes, axis) != axes.end(); });
}

std::string WorldMesh::joined_names() const {
  std::vector<std::string_view> names;
  for (const WorldAxis& axis : axes) names.push_back(axis.name);
  return fmt::format("{}", fmt::join(names, "_"));
}

std::optional<std::vector<int64_t>> strides_of(const RankTensor& tensor) {
  std::vector<int64_t> strides(tensor.axes.size(), 0);
  int64_t inner = 1;
  for (size_t i = tensor.axes.size(); i-- > 0;) {
    const auto next = static_cast<size_t>(inner);
    if (tensor.axes[i].size > 1 && next < tensor.mesh_ranks.size()) {
      strides[i] = tensor.mesh_ranks[next] - tensor.mesh_ranks[0];
    }
    inner *= tensor.axes[i].size;
  }
  if (inner != std::ssize(tensor.mesh_ranks)) return std::nullopt;
  for (int64_t place = 0; place < inner; ++place) {
    int64_t rank = tensor.mesh_ranks[0];
    int64_t rest = place;
    for (size_t i = tensor.axes.size(); i-- > 0;) {
      rank += rest % tensor.axes[i].size * strides[i];
      rest /= tensor.axes[i].size;
    }
    if (rank != tensor.mesh_ranks[static_cast<size_t>(place)]) return std::nullopt;
  }
  return strides;
}

std::optional<WorldMesh> mesh_around(std::vector<WorldAxis> axes, int64_t ranks) {
  std::ranges::sort(axes, {}, &WorldAxis::stride);
  std::vector<WorldAxis> all = axes;
  int64_t reached = 1;
  for (const WorldAxis& axis : axes) {
    if (axis.stride < reached || axis.stride % reached != 0) return std::nullopt;
    if (axis.stride > reached) all.push_back({free_name(all), axis.stride / reached, reached});
    reached = axis.stride * axis.size;
  }
  if (ranks % reached != 0) return std::nullopt;
  if (ranks > reached || all.empty()) all.push_back({free_name(all), ranks / reached, reached});
  std::ranges::sort(all, std::greater(), &WorldAxis::stride);
  return WorldMesh{std::move(all)};
}

}  // namespace weightloom::internal
