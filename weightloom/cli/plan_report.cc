#include "weightloom/cli/plan_report.h"

#include <algorithm>
#include <utility>

#include "weightloom/execute/budget.h"
#include "weightloom/execute/convert.h"
#include "weightloom/plan/schedule.h"

namespace weightloom::cli {
namespace {

/// All targets one after the other in one space.
std::vector<Placement> in_one_space(const CopyProgram& program) {
  std::vector<Placement> placements;
  placements.reserve(program.targets().size());
  int64_t offset = 0;
  for (const ProgramTarget& target : program.targets()) {
    placements.push_back({0, offset});
    offset += target.size_bytes;
  }
  return placements;
}

int64_t free_bytes_at(const Syscalls& calls, const std::string& folder) {
  const int64_t bytes = calls.free_bytes(folder);
  if (bytes < 0) throw system_error(static_cast<int>(-bytes), "ask for the free space of", folder);
  return bytes;
}

}  // namespace

Cost cost_of_conversion(const CopyProgram& program, const RunOptions& run) {
  const ScheduleLimits limits = limits_for(run.memory_budget_bytes, run.threads);
  return cost_of(program, in_one_space(program), limits, run.threads);
}

Cost cost_of_conversion(const CopyProgram& program, CostCounter& costs) {
  return costs.cost_of(program, in_one_space(program));
}

PlanReport make_plan(const Syscalls& calls, const Checkpoint& source, const Selection& selection,
                     const RunOptions& run) {
  PlanReport plan;
  plan.conversion = plan_conversion(calls, source, selection, Registry::built_in(), run.threads);
  plan.lenient = selection.lenient;
  if (selection.to == Side::runtime && !selection.expected) {
    plan.conversion.findings.push_back(
        {Severity::report, "not_checked", "", "",
         "what the runtime expects is not known, so missing and unexpected tensors were not looked "
         "for: --expect FILE tells"});
  }
  plan.source = source.path();
  plan.source_tensors = static_cast<int64_t>(source.tensors().size());
  plan.cost = cost_of_conversion(plan.conversion.program, run);
  plan.resident_bytes = resident_bytes(calls);
  // A refused conversion has no files; what its sound targets take is the nearest there is.
  plan.disk_bytes_needed =
      plan.is_refused() ? plan.cost.bytes_written
                        : disk_bytes_needed(calls, source, plan.conversion, "out", OutputOptions{});
  plan.disk_bytes_free = free_bytes_at(calls, source.folder());
  return plan;
}

std::vector<std::string_view> source_names(const CopyProgram& program,
                                           const ProgramTarget& target) {
  std::vector<std::string_view> names;
  for (const SourceId source : stored_sources(program, target)) {
    names.push_back(program.sources()[static_cast<size_t>(source)].name);
  }
  return names;
}

}  // namespace weightloom::cli
