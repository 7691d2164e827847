// Plans and DTensors. Plan.held: of whole targets the parts that one rank holds, by what each
// tensor tells of its mesh and placements. Plan.dtensors: what is to be told of those that a plan
// makes.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "placed.h"
#include "plan.h"
#include "weightloom/base/error.h"
#include "weightloom/sharding/held_part.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

// Name, local shape, axes of the mesh, where this rank stands along them, placements.
using Given = std::tuple<std::string, Shape, std::vector<std::pair<std::string, int64_t>>,
                         std::vector<int64_t>, std::vector<Placed>>;

RankTensor tensor_of(const Given& given, const ProgramTarget& whole) {
  const auto& [name, local_shape, axes, coordinate, placements] = given;
  RankTensor tensor{
      .name = name, .dtype = whole.dtype, .shape = whole.shape, .local_shape = local_shape};
  for (const auto& [axis, size] : axes) tensor.axes.push_back({axis, size});
  for (const Placed& placed : placements) tensor.placements.push_back(placement_of(placed));
  return tensor;
}

/// The parts that a rank holds, and what is wrong with others.
struct HeldParts {
  std::vector<bool> keep;  // of the whole targets
  Spread spread{one_rank(), {}, true};
  std::vector<Finding> findings;

  void add(const Given& given, const ProgramTarget& whole) {
    try {
      spread.shardings.push_back(held_part(tensor_of(given, whole), std::get<3>(given)));
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

// Name, mesh, whole shape, placements.
using Told = std::tuple<std::string, std::string, Shape, std::optional<std::vector<Placed>>>;

/// Of the whole targets that this rank has a part of.
std::vector<Told> dtensors(const Plan& plan) {
  plan.refuse_unless_loadable();
  std::set<std::string_view> made;
  for (const ProgramTarget& target : plan.program().targets()) made.insert(target.name);
  const auto wholes = plan.whole().program.targets();
  const Spread& spread = plan.whole().spread.value();
  std::vector<Told> told;
  for (size_t i = 0; i < wholes.size(); ++i) {
    if (!made.contains(wholes[i].name)) continue;
    const Sharding& sharding = spread.shardings[i];
    const Mesh& mesh = *spread.meshes.find(sharding.mesh);
    std::optional<std::vector<Placed>> placed;
    if (const auto placements = placements_of(mesh, sharding, wholes[i].shape)) {
      placed.emplace();
      for (const DTensorPlacement& placement : *placements) placed->push_back(placed_as(placement));
    }
    told.emplace_back(wholes[i].name, sharding.mesh, wholes[i].shape, std::move(placed));
  }
  return told;
}

}  // namespace

void bind_held_parts(nb::module_&) {
  auto plan = nb::borrow<nb::class_<Plan>>(nb::type<Plan>());
  plan.def("held", &held, nb::arg("tensors"),
           "This plan for the parts of its targets that a rank holds, and findings on tensors that "
           "are left out. Of each tensor (name, local shape, [(axis, size)] of its mesh, where the "
           "rank stands along them, [(kind, dim, split factor)]); no axes: held whole.");
  plan.def(
      "dtensors", &dtensors,
      "Of each target of a rank's plan (name, name of its mesh, whole shape, [(kind, dim, split "
      "factor)] along the mesh's axes); None where no placements of torch say how it lies.");
}

}  // namespace weightloom::python
