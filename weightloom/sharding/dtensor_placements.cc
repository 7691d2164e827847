#include "weightloom/sharding/dtensor_placements.h"

#include <map>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

using Kind = DTensorPlacement::Kind;
using Order = std::map<int, std::vector<size_t>>;  // of each dim: axes, first cut first

int64_t factor_of(const DTensorPlacement& placement) {
  return placement.kind == Kind::strided_shard ? placement.split_factor : 1;
}

void check(const Mesh& mesh, std::span<const DTensorPlacement> placements) {
  if (placements.size() != mesh.axes().size()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} placements for the {} axes of the mesh '{}'", placements.size(),
                            mesh.axes().size(), to_string(mesh)));
  }
  for (const DTensorPlacement& placement : placements) {
    if (factor_of(placement) >= 1) continue;
    throw Error(ErrorCode::usage, fmt::format("a placement has a split_factor of {}, needed 1 "
                                              "or more",
                                              placement.split_factor));
  }
}

/// Puts an axis where the cuts before it leave `factor` pieces. False if there is no such place.
bool insert(std::vector<size_t>& axes, size_t axis, int64_t factor, const Mesh& mesh) {
  int64_t pieces = 1;
  for (size_t place = 0; place <= axes.size(); ++place) {
    if (pieces == factor) {
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), axis);
      return true;
    }
    if (place < axes.size()) pieces *= mesh.axes()[axes[place]].size;
  }
  return false;
}

std::optional<Order> carving_order(const Mesh& mesh, std::span<const DTensorPlacement> placements) {
  Order order;
  for (size_t axis = placements.size(); axis-- > 0;) {
    const DTensorPlacement& placement = placements[axis];
    if (placement.kind == Kind::replicate) continue;
    if (!insert(order[placement.dim], axis, factor_of(placement), mesh)) return std::nullopt;
  }
  return order;
}

CutStep cut_by(const Mesh& mesh, size_t axis, const DTensorPlacement& placement, int64_t stripes) {
  return {mesh.axes()[axis].name, placement.dim, {.stripes = stripes}};
}

std::vector<CutStep> left_to_right(const Mesh& mesh, std::span<const DTensorPlacement> placements,
                                   bool first_may_be_fsdp) {
  std::vector<CutStep> cuts;
  std::optional<CutStep> last;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const DTensorPlacement& placement = placements[axis];
    if (placement.kind == Kind::replicate) continue;
    if (first_may_be_fsdp && axis == 0 && factor_of(placement) > 1) {
      last = cut_by(mesh, axis, placement, 1);
      continue;
    }
    cuts.push_back(cut_by(mesh, axis, placement, factor_of(placement)));
  }
  if (last) cuts.push_back(*std::move(last));
  return cuts;
}

/// A cut that torch has placements for, and the place of its axis in the mesh.
struct TorchCut {
  size_t axis = 0;
  int64_t parts = 1;
  int dim = 0;
  int64_t stripes = 1;
};

std::optional<TorchCut> torch_cut(const Mesh& mesh, const ShardingStep& step) {
  const auto* cut = std::get_if<CutStep>(&step);
  if (cut == nullptr || cut->copies != 1) return std::nullopt;
  if (cut->cut != Cut{.stripes = cut->cut.stripes}) return std::nullopt;
  const size_t axis = mesh.find(cut->axis).value();
  return TorchCut{axis, mesh.axes()[axis].size, cut->dim, cut->cut.stripes};
}

/// In how many pieces the dim was by then, of those that the mesh names only later.
int64_t pieces_before(std::span<const TorchCut> cuts, const TorchCut& cut) {
  int64_t pieces = cut.stripes;
  for (const TorchCut& other : cuts) {
    if (other.axis == cut.axis) break;
    if (other.dim == cut.dim && other.axis > cut.axis) pieces *= other.parts;
  }
  return pieces;
}

/// True if torch computes of the placement what the cut made.
bool is_torchs(std::span<const TorchCut> cuts, const TorchCut& cut, const Shape& shape) {
  int64_t parts = 1;
  for (const TorchCut& other : cuts) {
    if (other.dim != cut.dim) continue;
    if (other.axis != cut.axis && (cut.stripes > 1 || other.stripes > 1)) return false;
    parts *= other.parts;
  }
  const bool is_cut_of_cuts = pieces_before(cuts, cut) > cut.stripes;
  return !is_cut_of_cuts || shape[static_cast<size_t>(cut.dim)] % parts == 0;
}

}  // namespace

std::optional<std::vector<DTensorPlacement>> placements_of(const Mesh& mesh,
                                                           const Sharding& sharding,
                                                           const Shape& shape) {
  std::vector<TorchCut> cuts;
  for (const ShardingStep& step : sharding.steps) {
    const auto cut = torch_cut(mesh, step);
    if (!cut) return std::nullopt;
    cuts.push_back(*cut);
  }
  std::vector<DTensorPlacement> placements(mesh.axes().size());
  for (const TorchCut& cut : cuts) {
    if (!is_torchs(cuts, cut, shape)) return std::nullopt;
    const int64_t pieces = pieces_before(cuts, cut);
    placements[cut.axis] = {pieces == 1 ? Kind::shard : Kind::strided_shard, cut.dim, pieces};
  }
  return placements;
}

std::vector<CutStep> cuts_of(const Mesh& mesh, std::span<const DTensorPlacement> placements,
                             PlacementOrder order) {
  check(mesh, placements);
  if (order == PlacementOrder::left_to_right) return left_to_right(mesh, placements, false);
  const auto carved = carving_order(mesh, placements);
  if (!carved) return left_to_right(mesh, placements, true);
  std::vector<CutStep> cuts;
  for (const auto& [dim, axes] : *carved) {
    for (const size_t axis : axes) cuts.push_back(cut_by(mesh, axis, placements[axis], 1));
  }
  return cuts;
}

LoadSpec derive_spec(const CurrentLayout& layout, const Mesh& mesh) {
  LoadSpecFields fields{.name = layout.name,
                        .global_hf_keys = layout.global_hf_keys,
                        .global_shape = layout.global_shape,
                        .fused_dim = layout.fused_dim,
                        .origin_shape = layout.origin_shape,
                        .padding = layout.padding};
  for (const CutStep& cut : cuts_of(mesh, layout.placements)) {
    fields.shards.push_back({.dim = cut.dim, .interleave = cut.cut.stripes, .axis = cut.axis});
  }
  return LoadSpec::make(std::move(fields));
}

}  // namespace weightloom
