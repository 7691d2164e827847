#include "weightloom/cli/plan_report.h"

#include <algorithm>
#include <utility>

#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
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

Cost cost_of_conversion(const CopyProgram& program, const RunOptions& run) {
  const ScheduleLimits limits = limits_for(run.memory_budget_bytes, run.threads);
  return cost_of(program, in_one_space(program), limits, run.threads);
}

int64_t free_bytes_at(const Syscalls& calls, const std::string& folder) {
  const int64_t bytes = calls.free_bytes(folder);
  if (bytes < 0) throw system_error(static_cast<int>(-bytes), "ask for the free space of", folder);
  return bytes;
}

void write_target(JsonWriter& json, const PlanReport& plan, size_t i) {
  const CopyProgram& program = plan.conversion.program;
  const ProgramTarget& target = program.targets()[i];
  json.begin_object().field("name", target.name).field("dtype", to_string(target.dtype));
  json.field("shape", target.shape).key("sources").begin_array();
  for (std::string_view name : source_names(program, target)) json.value(name);
  json.end_array().field("bytes_read", plan.cost.target_bytes_read[i]).end_object();
}

void write_tied(JsonWriter& json, const std::vector<TiedName>& tied) {
  json.begin_array();
  for (const TiedName& tie : tied) {
    json.begin_object().field("name", tie.name).field("same_as", tie.same_as).end_object();
  }
  json.end_array();
}

void write_report(JsonWriter& json, const PlanReport& plan) {
  const FindingGroups groups = group_findings(plan.conversion.findings, plan.lenient);
  json.begin_object();
  write_findings(json.key("missing"), groups.missing);
  write_findings(json.key("unexpected"), groups.unexpected);
  write_findings(json.key("mismatched"), groups.mismatched);
  write_findings(json.key("errors"), groups.errors);
  write_findings(json.key("notes"), groups.notes);
  json.end_object();
}

}  // namespace

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
  plan.peak_memory_bytes = plan.cost.working_memory_bytes + resident_bytes(calls);
  // A refused conversion has no files; what its sound targets take is the nearest there is.
  plan.disk_bytes_needed =
      plan.is_refused() ? plan.cost.bytes_written
                        : disk_bytes_needed(calls, source, plan.conversion, "out", OutputOptions{});
  plan.disk_bytes_free = free_bytes_at(calls, source.folder());
  return plan;
}

std::string plan_json(const PlanReport& plan) {
  const Cost& cost = plan.cost;
  JsonWriter json;
  json.begin_object().field("rank", int64_t{0}).field("world_size", int64_t{1});
  json.key("targets").begin_array();
  for (size_t i = 0; i < plan.conversion.program.targets().size(); ++i) {
    write_target(json, plan, i);
  }
  write_tied(json.end_array().key("tied"), plan.conversion.tied);
  json.field("bytes_needed", cost.bytes_needed).field("bytes_read", cost.bytes_read);
  json.field("bytes_written", cost.bytes_written).field("regions", cost.regions);
  json.field("files", cost.files).field("peak_memory_bytes", plan.peak_memory_bytes);
  json.field("disk_bytes_needed", plan.disk_bytes_needed);
  json.field("disk_bytes_free", plan.disk_bytes_free).key("report");
  write_report(json, plan);
  json.end_object();
  return std::move(json).finish();
}

std::vector<std::string_view> source_names(const CopyProgram& program,
                                           const ProgramTarget& target) {
  std::vector<std::pair<SourceId, size_t>> uses;  // with the place of the region
  uses.reserve(target.regions.size());
  for (size_t i = 0; i < target.regions.size(); ++i) {
    if (!target.regions[i].is_pad()) uses.emplace_back(target.regions[i].source, i);
  }
  std::ranges::sort(uses);
  const auto repeats = std::ranges::unique(uses, {}, &std::pair<SourceId, size_t>::first);
  uses.erase(repeats.begin(), repeats.end());
  std::ranges::sort(uses, {}, &std::pair<SourceId, size_t>::second);
  std::vector<std::string_view> names;
  names.reserve(uses.size());
  for (const auto& [source, place] : uses) {
    names.push_back(program.sources()[static_cast<size_t>(source)].name);
  }
  return names;
}

}  // namespace weightloom::cli
