// Plans for a model that is there, and parts of plans: some of the targets, and which of them the
// source holds as they are.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "plan.h"
#include "weightloom/base/dtype.h"
#include "weightloom/base/error.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/expected.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

[[noreturn]] void refuse_unknown(const std::unordered_set<std::string_view>& names) {
  const std::string_view first = *std::min_element(names.begin(), names.end());
  throw Error(ErrorCode::usage, "the plan makes no tensor '" + std::string(first) + "'",
              "take names of Plan.targets");
}

/// Errors: usage for a name that is no target's.
PlanPtr only(const Plan& plan, const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> wanted(names.begin(), names.end());
  std::vector<bool> keep;
  for (const ProgramTarget& target : plan.program().targets()) {
    keep.push_back(wanted.erase(target.name) > 0);
  }
  if (!wanted.empty()) refuse_unknown(wanted);
  Conversion part = plan.conversion();
  part.program = select_targets(part.program, keep);
  // What was known of the whole output is not known of a part.
  part.original_files.clear();
  part.original_index.reset();
  part.kept_names.clear();
  return plan.with(std::move(part));
}

/// The source that a target is, byte for byte; nothing if it is made of parts or cast.
const ProgramSource* verbatim_source(const CopyProgram& program, const ProgramTarget& target) {
  if (target.regions.size() != 1 || target.has_casts) return nullptr;
  const Region& region = target.regions.front();
  if (region.is_pad()) return nullptr;
  const ProgramSource& source = program.sources()[static_cast<size_t>(region.source)];
  const bool is_whole = region.source_offset == 0 && source.size_bytes == target.size_bytes &&
                        source.shape == target.shape && region.axes.size() == 1 &&
                        region.axes.front().source_stride == 1;
  return is_whole ? &source : nullptr;
}

std::optional<std::string> verbatim_of(const Plan& plan, const std::string& name) {
  for (const ProgramTarget& target : plan.program().targets()) {
    if (target.name != name) continue;
    const ProgramSource* const source = verbatim_source(plan.program(), target);
    return source == nullptr ? std::nullopt : std::optional(source->name);
  }
  return std::nullopt;
}

using Wanted = std::tuple<std::string, std::optional<std::string>>;

ExpectedTensor expected_tensor(const Wanted& wanted) {
  const auto& [name, dtype] = wanted;
  ExpectedTensor tensor{name};
  if (!dtype) return tensor;
  tensor.dtype = parse_dtype(*dtype);
  if (!tensor.dtype) {
    throw Error(ErrorCode::usage, "tensor '" + name + "': there is no dtype '" + *dtype + "'");
  }
  return tensor;
}

/// From hub to runtime, by the text of a mapping, for the names that a model has.
PlanPtr plan_for_model(SourcePtr source, std::string mapping, const std::vector<Wanted>& wanted,
                       std::string base_model_prefix, int threads) {
  PlanRequest request;
  request.mapping = std::move(mapping);
  request.from = "hub";
  request.to = "runtime";
  request.lenient = true;
  request.expected.emplace();
  for (const Wanted& tensor : wanted) request.expected->tensors.push_back(expected_tensor(tensor));
  request.expected->base_model_prefix = std::move(base_model_prefix);
  request.expected->may_miss = true;
  request.expected->cast = true;
  const nb::gil_scoped_release released;
  return Plan::make(std::move(source), request, Registry::built_in(), threads);
}

}  // namespace

void bind_plan_parts(nb::module_& module) {
  auto plan = nb::borrow<nb::class_<Plan>>(nb::type<Plan>());
  plan.def("only", &only, nb::arg("names"), "This plan for some of its targets.");
  plan.def(
      "verbatim_of", &verbatim_of, nb::arg("name"),
      "Name of the stored tensor that a target is, byte for byte; None if it is made of parts, "
      "or cast.");
  module.def("plan_for_model", &plan_for_model, nb::arg("source"), nb::kw_only(),
             nb::arg("mapping"), nb::arg("wanted"), nb::arg("base_model_prefix") = "",
             nb::arg("threads") = 1,
             "Plans what a model wants of a checkpoint, by the text of a mapping from hub to "
             "runtime. `wanted`: (name, dtype to cast to or None). What is missing or unexpected "
             "stands in the findings; shapes are not looked at.");
}

}  // namespace weightloom::python
