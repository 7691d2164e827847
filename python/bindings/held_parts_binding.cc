// Plan.held: of whole targets the parts that one rank holds as DTensors. Each tensor tells the mesh
// that it is on, and its placements; ranks need not agree on anything, nor speak to each other.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "placed.h"
#include "plan.h"
#include "weightloom/base/error.h"
#include "weightloom/sharding/rank_tensors.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

// Name, local shape, axes of the mesh, where this rank stands along them, placements.
using Given = std::tuple<std::string, Shape, std::vector<std::pair<std::string, int64_t>>,
                         std::vector<int64_t>, std::vector<Placed>>;

/// A tensor that this rank holds a part of, and its place on the tensor's mesh.
struct Held {
  RankTensor tensor;
  Mesh mesh;
  int64_t rank = 0;
};

/// Errors: usage if there is no such place.
int64_t rank_at(const Mesh& mesh, const std::vector<int64_t>& coordinate) {
  const auto axes = mesh.axes();
  bool is_there = coordinate.size() == axes.size();
  for (size_t i = 0; is_there && i < axes.size(); ++i) {
    is_there = coordinate[i] >= 0 && coordinate[i] < axes[i].size;
  }
  if (is_there) return mesh.rank_at(coordinate);
  throw Error(ErrorCode::usage, fmt::format("there is no place {} on the mesh '{}'",
                                            to_string(coordinate), to_string(mesh)));
}

Held held_of(const Given& given, const ProgramTarget& whole) {
  const auto& [name, local_shape, axes, coordinate, placements] = given;
  Held held{
      .tensor = {
          .name = name, .dtype = whole.dtype, .shape = whole.shape, .local_shape = local_shape}};
  for (const auto& [axis, size] : axes) held.tensor.axes.push_back({axis, size});
  for (const Placed& placed : placements) held.tensor.placements.push_back(placement_of(placed));
  held.mesh = Mesh::make(held.tensor.axes);
  held.rank = rank_at(held.mesh, coordinate);
  return held;
}

LocalPart part_in(const Held& held, PlacementOrder order) {
  Sharding sharding;
  for (CutStep& cut : cuts_of(held.mesh, held.tensor.placements, order)) {
    sharding.steps.emplace_back(std::move(cut));
  }
  return *local_part(sharding, MeshSet(held.mesh), held.tensor.shape, held.rank);
}

[[noreturn]] void refuse(const Held& held, const std::string& why) {
  throw Error(ErrorCode::usage,
              fmt::format("'{}' is {}, but {}", held.tensor.name, to_string(held.tensor), why));
}

/// Placements do not say which of two orders cut the tensor (sharding/dtensor_placements.h): the
/// one counts that gives the shape that is held.
LocalPart part_of(const Held& held) {
  const LocalPart carved = part_in(held, PlacementOrder::carving);
  const LocalPart straight = part_in(held, PlacementOrder::left_to_right);
  const Shape carved_shape = local_shape(carved);
  const Shape straight_shape = local_shape(straight);
  const bool is_carved = carved_shape == held.tensor.local_shape;
  const bool is_straight = straight_shape == held.tensor.local_shape;
  if (is_carved && is_straight && carved != straight) {
    refuse(held,
           "this shape fits other rows where FSDP cut last than as torch reads the placements");
  }
  if (is_carved) return carved;
  if (is_straight) return straight;
  if (carved_shape == straight_shape) {
    refuse(held, fmt::format("this rank's part is {}", to_string(carved_shape)));
  }
  refuse(held, fmt::format("this rank's part is {} where FSDP cut last, {} as torch reads the "
                           "placements",
                           to_string(carved_shape), to_string(straight_shape)));
}

/// A part as a sharding over one rank: tables of its rows.
Sharding as_tables(const LocalPart& part, const Shape& whole, const std::string& axis) {
  Sharding sharding;
  for (size_t dim = 0; dim < part.size(); ++dim) {
    if (part[dim] == whole_dim(whole[dim])) continue;
    std::vector<Interval> rows;
    for (const Segment& segment : part[dim]) {
      rows.push_back({segment.begin, segment.begin + segment.size});
    }
    sharding.steps.emplace_back(
        CutStep{axis, static_cast<int>(dim), {.rule = CutRule::table, .table = {rows}}});
  }
  return sharding;
}

/// The parts that a rank holds, and what is wrong with others.
struct HeldParts {
  std::vector<bool> keep;  // of the whole targets
  Spread spread{one_rank(), {}, true};
  std::vector<Finding> findings;

  void add(const Given& given, const ProgramTarget& whole) {
    try {
      const LocalPart part = part_of(held_of(given, whole));
      const std::string& axis = spread.meshes.first().axes().front().name;
      spread.shardings.push_back(as_tables(part, whole.shape, axis));
      keep.back() = true;
    } catch (const Error& error) {
      findings.push_back({Severity::error, "part_mismatch", whole.name, "", error.what()});
    }
  }
};

/// Targets that `tensors` does not name are left out.
std::pair<PlanPtr, std::vector<Finding>> held(const Plan& plan, const std::vector<Given>& tensors) {
  std::map<std::string_view, const Given*> by_name;
  for (const Given& tensor : tensors) by_name.emplace(std::get<0>(tensor), &tensor);
  HeldParts parts;
  for (const ProgramTarget& whole : plan.whole().program.targets()) {
    const auto found = by_name.find(whole.name);
    parts.keep.push_back(false);
    if (found != by_name.end()) parts.add(*found->second, whole);
  }
  Conversion kept = with_targets_kept(plan.whole(), parts.keep);
  for (Finding& finding : check_spread(kept.program, parts.spread)) {
    kept.findings.push_back(std::move(finding));
  }
  kept.spread = std::move(parts.spread);
  return {plan.of_rank(std::move(kept), 0), std::move(parts.findings)};
}

}  // namespace

void bind_held_parts(nb::module_&) {
  auto plan = nb::borrow<nb::class_<Plan>>(nb::type<Plan>());
  plan.def("held", &held, nb::arg("tensors"),
           "This plan for the parts of its targets that a rank holds, and findings on tensors that "
           "are left out. Of each tensor (name, local shape, [(axis, size)] of its mesh, where the "
           "rank stands along them, [(kind, dim, split factor)]); no axes: held whole.");
}

}  // namespace weightloom::python
