#include "weightloom/sharding/held_part.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/sharding/placement_choice_internal.h"

namespace weightloom {
namespace {

[[noreturn]] void refuse(const RankTensor& tensor, const std::string& why) {
  throw Error(ErrorCode::usage,
              fmt::format("'{}' is {}, but {}", tensor.name, to_string(tensor), why));
}

int64_t rank_at(const Mesh& mesh, const RankTensor& tensor,
                const std::vector<int64_t>& coordinate) {
  const auto axes = mesh.axes();
  bool is_there = coordinate.size() == axes.size();
  for (size_t i = 0; is_there && i < axes.size(); ++i) {
    is_there = coordinate[i] >= 0 && coordinate[i] < axes[i].size;
  }
  if (is_there) return mesh.rank_at(coordinate);
  refuse(tensor, fmt::format("there is no place {} on this mesh", to_string(coordinate)));
}

LocalPart part_in(PlacementOrder order, const RankTensor& tensor, const Mesh& mesh, int64_t rank) {
  Sharding sharding;
  for (CutStep& cut : cuts_of(mesh, tensor.placements, order)) {
    sharding.steps.emplace_back(std::move(cut));
  }
  return *local_part(sharding, MeshSet(mesh), tensor.shape, rank);
}

internal::OrderTrial trial_of(const RankTensor& tensor, const LocalPart& part) {
  const Shape given = local_shape(part);
  return {given == tensor.local_shape, to_string(given)};
}

/// What is held of two parts, which may be one.
LocalPart fitting(const RankTensor& tensor, LocalPart carved, LocalPart straight) {
  const auto by_carving = trial_of(tensor, carved);
  const auto as_torch_reads = trial_of(tensor, straight);
  switch (internal::order_fit(by_carving, as_torch_reads, carved == straight)) {
    case internal::OrderFit::carving:
      return carved;
    case internal::OrderFit::left_to_right:
      return straight;
    case internal::OrderFit::neither:
      refuse(tensor, "this rank's part is " + internal::given_by_both(by_carving, as_torch_reads));
    case internal::OrderFit::either:
      refuse(tensor,
             "this shape fits other rows where FSDP cut last than as torch reads the placements");
  }
  __builtin_unreachable();
}

/// A part as a sharding over one rank.
Sharding as_tables(const LocalPart& part, const Shape& whole) {
  Sharding sharding;
  for (size_t dim = 0; dim < part.size(); ++dim) {
    if (part[dim] == whole_dim(whole[dim])) continue;
    std::vector<Interval> rows;
    for (const Segment& segment : part[dim]) {
      rows.push_back({segment.begin, segment.begin + segment.size});
    }
    sharding.steps.emplace_back(CutStep{one_rank().first().axes().front().name,
                                        static_cast<int>(dim),
                                        {.rule = CutRule::table, .table = {rows}}});
  }
  return sharding;
}

}  // namespace

Sharding held_part(const RankTensor& tensor, const std::vector<int64_t>& coordinate) {
  const Mesh mesh = Mesh::make(tensor.axes);
  const int64_t rank = rank_at(mesh, tensor, coordinate);
  return as_tables(fitting(tensor, part_in(PlacementOrder::carving, tensor, mesh, rank),
                           part_in(PlacementOrder::left_to_right, tensor, mesh, rank)),
                   tensor.shape);
}

}  // namespace weightloom
