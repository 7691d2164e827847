#include <optional>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "plan.h"
#include "plan_runs.h"
#include "shipped.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

/// A tensor that a plan makes.
struct TargetInfo {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t size_bytes;
};

std::vector<TargetInfo> targets_of(const Plan& plan) {
  std::vector<TargetInfo> targets;
  for (const ProgramTarget& target : plan.program().targets()) {
    targets.push_back({target.name, target.dtype, target.shape, target.size_bytes});
  }
  return targets;
}

std::vector<std::pair<std::string, std::string>> tied_of(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> tied;
  for (const TiedName& pair : plan.conversion().tied) tied.emplace_back(pair.name, pair.same_as);
  return tied;
}

std::string mesh_of(const Plan& plan) {
  return plan.whole().spread ? to_string(plan.whole().spread->meshes) : "";
}

std::string manifest_of(const Plan& plan) {
  if (!plan.whole().spread || plan.whole().is_refused(plan.lenient())) return "";
  return format_manifest(*for_ranks(plan.whole(), {}).manifest);
}

// NOLINTNEXTLINE(readability-function-size): one parameter for each thing that can be asked for
PlanPtr make_plan(SourcePtr source, std::string mapping, std::string from, std::string to,
                  std::optional<std::string> dtype, std::vector<std::string> keep_dtype,
                  std::vector<std::string> include, std::vector<std::string> exclude,
                  std::string architecture, std::vector<Rename> renames, bool lenient,
                  std::optional<std::string> config_json, std::optional<Expected> expected,
                  std::string mesh, std::optional<int64_t> rank, std::optional<std::string> tp_plan,
                  std::optional<std::string> placements, std::optional<std::string> load_specs,
                  bool dequantize, std::string quantize, RegistryPtr registry, int threads) {
  const PlanRequest request{std::move(mapping),     std::move(from),
                            std::move(to),          std::move(dtype),
                            std::move(keep_dtype),  std::move(include),
                            std::move(exclude),     std::move(architecture),
                            std::move(renames),     lenient,
                            std::move(config_json), std::move(expected),
                            std::move(mesh),        rank,
                            std::move(tp_plan),     std::move(placements),
                            std::move(load_specs),  dequantize,
                            std::move(quantize)};
  const Registry known = registry ? *registry : shipped_registry();  // others may add to it
  const nb::gil_scoped_release released;
  return Plan::make(std::move(source), request, known, threads);
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<TargetInfo>(module, "TargetInfo", "A tensor that a plan makes.")
      .def_ro("name", &TargetInfo::name, "In the wanted layout.")
      .def_prop_ro(
          "dtype", [](const TargetInfo& info) { return to_string(info.dtype); },
          "As safetensors spells it: 'BF16'.")
      .def_prop_ro(
          "shape", [](const TargetInfo& info) { return nb::tuple(nb::cast(info.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes of the dims, outermost first.")
      .def_ro("nbytes", &TargetInfo::size_bytes, "Size of its data in bytes.");
  nb::class_<Plan> bound(module, "Plan",
                         "A conversion that was planned from headers; nothing moved yet.");
  bound
      .def_prop_ro("targets", &targets_of,
                   "What would be made: of whole tensors, or the parts of the rank asked for.")
      .def_prop_ro("mesh", &mesh_of, "The mesh that targets are spread over: 'fsdp=4,tp=2'; or ''.")
      .def_prop_ro("rank", &Plan::rank, "The rank whose parts are made, if one was asked for.")
      .def_prop_ro("manifest", &manifest_of, nb::sig("def manifest(self) -> str"),
                   "The text of layout.json: whole tensors, and how each is spread; '' without a "
                   "mesh.")
      .def_prop_ro(
          "findings", [](const Plan& plan) { return plan.conversion().findings; },
          "All that was found, of every severity.")
      .def_prop_ro(
          "mapping", [](const Plan& plan) { return plan.conversion().mapping; },
          "Name of the mapping; 'none', 'plain' or 'unknown'.")
      .def_prop_ro(
          "from_", [](const Plan& plan) { return to_string(plan.conversion().from); },
          "Which layout the source holds: 'hub', 'runtime' or 'unknown'.")
      .def_prop_ro(
          "to", [](const Plan& plan) { return to_string(plan.conversion().to); },
          "Which layout would be made.")
      .def_prop_ro("tied", &tied_of,
                   "Pairs of a name and the target's whose tensor it stands for: the same memory.")
      .def_prop_ro(
          "fired", [](const Plan& plan) { return plan.conversion().provenance.fired; },
          "Places in the mapping of the transforms that fired.")
      .def_prop_ro(
          "record",
          [](const Plan& plan) { return format_provenance(plan.conversion().provenance); },
          "The text of weightloom.json for what would be made.")
      .def_prop_ro(
          "nbytes", [](const Plan& plan) { return plan.program().target_bytes(); },
          "Size of all targets in bytes.")
      .def_prop_ro(
          "is_refused", [](const Plan& plan) { return plan.whole().is_refused(plan.lenient()); },
          "True if the findings refuse it.")
      .def("raise_if_refused", &Plan::refuse_if_refused, "Raises PlanError with all findings.");
  bind_loads(bound);
  bind_streams(module, bound);
  bind_converts(module, bound);
  module.def("plan", &make_plan, nb::arg("source"), nb::kw_only(), nb::arg("mapping") = "auto",
             nb::arg("from_") = "auto", nb::arg("to") = "same", nb::arg("dtype") = nb::none(),
             nb::arg("keep_dtype") = std::vector<std::string>(),
             nb::arg("include") = std::vector<std::string>(),
             nb::arg("exclude") = std::vector<std::string>(), nb::arg("architecture") = "",
             nb::arg("renames") = std::vector<Rename>(), nb::arg("lenient") = false,
             nb::arg("config_json") = nb::none(), nb::arg("expected") = nb::none(),
             nb::arg("mesh") = "", nb::arg("rank") = nb::none(), nb::arg("tp_plan") = nb::none(),
             nb::arg("placements") = nb::none(), nb::arg("load_specs") = nb::none(),
             nb::arg("dequantize") = false, nb::arg("quantize") = "keep",
             nb::arg("registry") = nb::none(), nb::arg("threads") = 1,
             "Plans a conversion of a Checkpoint.");
}

}  // namespace weightloom::python
