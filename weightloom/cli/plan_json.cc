#include "weightloom/cli/plan_json.h"

#include <utility>

#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"

namespace weightloom::cli {
namespace {

/// What one object tells of.
struct Told {
  int64_t rank = 0;
  int64_t world_size = 1;
  const CopyProgram& program;
  const Cost& cost;
  int64_t disk_bytes_needed = 0;
};

void write_target(JsonWriter& json, const Told& told, size_t i) {
  const ProgramTarget& target = told.program.targets()[i];
  json.begin_object().field("name", target.name).field("dtype", to_string(target.dtype));
  json.field("shape", target.shape).key("sources").begin_array();
  for (std::string_view name : source_names(told.program, target)) json.value(name);
  json.end_array().field("bytes_read", told.cost.target_bytes_read[i]).end_object();
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

void write_costs(JsonWriter& json, const Cost& cost) {
  json.field("bytes_needed", cost.bytes_needed).field("bytes_read", cost.bytes_read);
  json.field("amplification", cost.amplification()).field("bytes_written", cost.bytes_written);
  json.field("regions", cost.regions).field("files", cost.files);
}

std::string json_of(const PlanReport& plan, const Told& told) {
  JsonWriter json;
  json.begin_object().field("rank", told.rank).field("world_size", told.world_size);
  json.key("targets").begin_array();
  for (size_t i = 0; i < told.program.targets().size(); ++i) write_target(json, told, i);
  write_tied(json.end_array().key("tied"), plan.conversion.tied);
  write_costs(json, told.cost);
  json.field("peak_memory_bytes", told.cost.working_memory_bytes + plan.resident_bytes);
  json.field("disk_bytes_needed", told.disk_bytes_needed);
  json.field("disk_bytes_free", plan.disk_bytes_free).key("report");
  write_report(json, plan);
  json.end_object();
  return std::move(json).finish();
}

}  // namespace

std::string plan_json(const PlanReport& plan) {
  return json_of(plan, {0, 1, plan.conversion.program, plan.cost, plan.disk_bytes_needed});
}

std::string rank_json(const PlanReport& plan, const RankPlan& rank, int64_t world_size) {
  return json_of(plan, {rank.rank, world_size, rank.program, rank.cost, rank.disk_bytes_needed});
}

}  // namespace weightloom::cli
