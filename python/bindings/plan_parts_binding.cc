// Parts of a plan: some of its targets, and which of them the source holds as they are.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "plan.h"
#include "weightloom/base/error.h"

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
  const std::unordered_set<std::string_view> wanted(names.begin(), names.end());
  std::unordered_set<std::string_view> left = wanted;
  for (const ProgramTarget& target : plan.program().targets()) left.erase(target.name);
  if (!left.empty()) refuse_unknown(left);
  std::vector<bool> keep;
  for (const ProgramTarget& target : plan.whole().program.targets()) {
    keep.push_back(wanted.contains(target.name));
  }
  Conversion part = with_targets_kept(plan.whole(), keep);
  const auto is_left = [&](const TiedName& tie) {
    return std::ranges::find(names, tie.same_as) == names.end();
  };
  std::erase_if(part.tied, is_left);
  std::erase_if(part.tied_but_stored, [&](const TiedName& tie) {
    return is_left(tie) || std::ranges::find(names, tie.name) == names.end();
  });
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

}  // namespace

void bind_plan_parts(nb::module_&) {
  auto plan = nb::borrow<nb::class_<Plan>>(nb::type<Plan>());
  plan.def("only", &only, nb::arg("names"), "This plan for some of its targets.");
  plan.def(
      "verbatim_of", &verbatim_of, nb::arg("name"),
      "Name of the stored tensor that a target is, byte for byte; None if it is made of parts, "
      "or cast.");
}

}  // namespace weightloom::python
