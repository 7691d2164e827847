#include <optional>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "plan.h"
#include "tensor.h"
#include "watch.h"
#include "weightloom/execute/load.h"

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

const Registry& shipped_registry() {
  static const Registry registry = Registry::built_in();
  return registry;
}

std::vector<TargetInfo> targets_of(const Plan& plan) {
  std::vector<TargetInfo> targets;
  for (const ProgramTarget& target : plan.program().targets()) {
    targets.push_back({target.name, target.dtype, target.shape, target.size_bytes});
  }
  return targets;
}

// NOLINTNEXTLINE(readability-function-size): one parameter for each thing that can be asked for
PlanPtr make_plan(SourcePtr source, std::string mapping, std::string from, std::string to,
                  std::optional<std::string> dtype, std::vector<std::string> keep_dtype,
                  std::vector<std::string> include, std::vector<std::string> exclude,
                  std::string architecture, std::vector<Rename> renames, bool lenient,
                  std::optional<std::string> config_json, int threads) {
  const PlanRequest request{std::move(mapping),      std::move(from),
                            std::move(to),           std::move(dtype),
                            std::move(keep_dtype),   std::move(include),
                            std::move(exclude),      std::move(architecture),
                            std::move(renames),      lenient,
                            std::move(config_json)};
  const nb::gil_scoped_release released;
  return Plan::make(std::move(source), request, shipped_registry(), threads);
}

/// A load in one arena, as it goes: targets become objects of a framework when they are asked for.
class Load {
 public:
  Load(PlanPtr plan, Framework framework) : plan_(std::move(plan)), framework_(framework) {
    plan_->refuse_if_refused();
    for (const ProgramTarget& target : plan_->program().targets()) {
      refuse_unknown_to(framework_, target.dtype, target.name);
    }
    memory_ = std::make_shared<LoadedTensors>(allocate(plan_->program()));
  }

  nb::object object_of(size_t target) const {
    const ProgramTarget& made = plan_->program().targets()[target];
    return to_framework({made.dtype, made.shape, memory_->tensors[target], memory_}, framework_);
  }

  void run(Watch& watch, bool tells_complete) {
    watch.run([&] {
      LoadOptions options{watch.options(), {}};
      if (tells_complete) options.complete = [&](size_t target) { watch.note_complete(target); };
      fill(plan_->calls(), plan_->program(), *memory_, options);
      return true;
    });
  }

  nb::dict objects() const {
    nb::dict result;
    const auto targets = plan_->program().targets();
    for (size_t i = 0; i < targets.size(); ++i) {
      result[nb::cast(targets[i].name)] = object_of(i);
    }
    return result;
  }

  const std::vector<Finding>& findings() const { return memory_->findings; }

 private:
  PlanPtr plan_;
  Framework framework_;
  std::shared_ptr<LoadedTensors> memory_;
};

nb::tuple load_plan(const PlanPtr& plan, std::optional<int> threads,
                    std::optional<int64_t> memory_budget, nb::object progress, nb::object complete,
                    const std::string& framework) {
  Load load(plan, parse_framework(framework));
  Watch watch(threads, memory_budget, std::move(progress), [&](size_t target) {
    complete(plan->program().targets()[target].name, load.object_of(target));
  });
  load.run(watch, !complete.is_none());
  return nb::make_tuple(load.objects(), load.findings());
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
  nb::class_<Plan>(module, "Plan", "A conversion that was planned from headers; nothing moved yet.")
      .def_prop_ro("targets", &targets_of, "What would be made, by name.")
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
      .def_prop_ro(
          "fired", [](const Plan& plan) { return plan.conversion().provenance.fired; },
          "Places in the mapping of the transforms that fired.")
      .def_prop_ro(
          "record", [](const Plan& plan) { return format_provenance(plan.conversion().provenance); },
          "The text of weightloom.json for what would be made.")
      .def_prop_ro(
          "nbytes", [](const Plan& plan) { return plan.program().target_bytes(); },
          "Size of all targets in bytes.")
      .def_prop_ro(
          "is_refused",
          [](const Plan& plan) { return plan.conversion().is_refused(plan.lenient()); },
          "True if the findings refuse it.")
      .def("raise_if_refused", &Plan::refuse_if_refused, "Raises PlanError with all findings.")
      .def("load", &load_plan, nb::kw_only(), nb::arg("threads") = nb::none(),
           nb::arg("memory_budget") = nb::none(), nb::arg("progress") = nb::none(),
           nb::arg("complete") = nb::none(), nb::arg("framework") = "numpy",
           "Runs the plan into memory: (tensors by name, findings of the run).");
  module.def("plan", &make_plan, nb::arg("source"), nb::kw_only(), nb::arg("mapping") = "auto",
             nb::arg("from_") = "auto", nb::arg("to") = "same", nb::arg("dtype") = nb::none(),
             nb::arg("keep_dtype") = std::vector<std::string>(),
             nb::arg("include") = std::vector<std::string>(),
             nb::arg("exclude") = std::vector<std::string>(), nb::arg("architecture") = "",
             nb::arg("renames") = std::vector<Rename>(), nb::arg("lenient") = false,
             nb::arg("config_json") = nb::none(), nb::arg("threads") = 1,
             "Plans a conversion of a Checkpoint.");
}

}  // namespace weightloom::python
