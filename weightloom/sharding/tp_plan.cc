#include "weightloom/sharding/tp_plan.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/file.h"
#include "weightloom/base/quote.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kTp = "tp";
constexpr std::string_view kEp = "ep";
constexpr std::string_view kFsdp = "fsdp";
constexpr std::string_view kExpertFsdp = "efsdp";
constexpr std::string_view kExpertMesh = "expert";
constexpr std::array<std::string_view, 8> kKnownAxes = {kTp,  kEp,    kFsdp,          kExpertFsdp,
                                                        "dp", "hsdp", "dp_replicate", "replicate"};

using Rule = StyleRules::value_type;

bool splits(const Mesh& mesh, std::string_view axis) {
  const auto place = mesh.find(axis);
  return place && mesh.axes()[*place].size > 1;
}

/// The mesh that experts lie on.
const NamedMesh& expert_mesh(const MeshSet& meshes) {
  const auto found = std::ranges::find(meshes.meshes(), kExpertMesh, &NamedMesh::name);
  return found == meshes.meshes().end() ? meshes.meshes().front() : *found;
}

/// The mesh that all else lies on.
const NamedMesh& dense_mesh(const MeshSet& meshes) {
  const auto found = std::ranges::find_if(
      meshes.meshes(), [](const NamedMesh& mesh) { return mesh.name != kExpertMesh; });
  return found == meshes.meshes().end() ? meshes.meshes().front() : *found;
}

std::string_view parent_of(std::string_view pattern) {
  const size_t dot = pattern.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : pattern.substr(0, dot);
}

/// The rule of a name, else that of its module; null if there is neither.
const Rule* find_rule(const StyleRules& rules, std::string_view pattern) {
  auto found = rules.find(pattern);
  if (found == rules.end() && pattern.find('.') != std::string_view::npos) {
    found = rules.find(parent_of(pattern));
  }
  return found == rules.end() ? nullptr : &*found;
}

/// True if a rule names this, or a module that it stands in.
bool is_named(const StyleRules& rules, std::string_view pattern) {
  for (; !pattern.empty(); pattern = parent_of(pattern)) {
    if (rules.contains(pattern)) return true;
  }
  return false;
}

/// What a plan says of one tensor.
struct Decision {
  const Rule* rule = nullptr;  ///< null: none
  std::string_view axis;       ///< that the rule cuts along
  bool is_expert = false;      ///< expert parallelism names it
};

Decision decide(const TpPlan& plan, const MeshSet& meshes, std::string_view pattern) {
  const bool has_experts = splits(expert_mesh(meshes).mesh, kEp);
  const bool is_expert = has_experts && is_named(plan.ep, pattern);
  if (is_expert) {
    if (const Rule* rule = find_rule(plan.ep, pattern)) return {rule, kEp, true};
  }
  const Rule* rule = find_rule(plan.tp, pattern);
  if (rule != nullptr && has_experts && is_named(plan.ep, rule->first)) rule = nullptr;
  return {rule, kTp, is_expert};
}

void check_experts(const Rule& rule, const Mesh& mesh, std::string_view name, const Shape& shape) {
  if (rule.second != ParallelStyle::grouped_gemm || shape.empty()) return;
  const int64_t ranks = mesh.axes()[*mesh.find(kEp)].size;
  if (shape.front() % ranks == 0) return;
  throw Error(ErrorCode::usage,
              fmt::format("{}: {} experts of the style 'grouped_gemm' do not divide among {} ranks "
                          "of the axis 'ep'",
                          quote(name), shape.front(), ranks));
}

Sharding sharding_by(const Decision& decision, const MeshSet& meshes, const NamedShape& tensor) {
  const auto& [name, shape, is_buffer] = tensor;
  const NamedMesh& mesh = decision.is_expert ? expert_mesh(meshes) : dense_mesh(meshes);
  Sharding sharding{&mesh == &meshes.meshes().front() ? "" : mesh.name, {}};
  if (shape.empty()) return sharding;
  if (decision.rule != nullptr && splits(mesh.mesh, decision.axis)) {
    check_experts(*decision.rule, mesh.mesh, name, shape);
    auto step = cut_by(decision.rule->second, decision.axis, name, shape);
    if (step) sharding.steps.emplace_back(*std::move(step));
  }
  const bool has_own = decision.is_expert && splits(mesh.mesh, kExpertFsdp);
  const std::string_view fsdp = has_own ? kExpertFsdp : kFsdp;
  if (splits(mesh.mesh, fsdp) && !is_buffer)
    sharding.steps.emplace_back(CutStep{std::string(fsdp), 0});
  return sharding;
}

void add_rules(const nlohmann::json& value, TpPlan& plan) {
  for (const auto& [pattern, style] : value.items()) {
    const std::string where = fmt::format("{}: {}", plan.file, quote(pattern));
    if (!style.is_string()) {
      throw Error(ErrorCode::format, fmt::format("{}: the style must be a string", where));
    }
    const ParallelStyle parsed = parse_style(style.get_ref<const std::string&>(), where);
    (is_expert_style(parsed) ? plan.ep : plan.tp).emplace(pattern, parsed);
  }
}

using Patterns = std::set<std::string, std::less<>>;

/// The patterns that rules are found by: those of the tensors, and of their modules.
Patterns patterns_of(std::span<const NamedShape> tensors) {
  Patterns patterns;
  for (const NamedShape& tensor : tensors) {
    std::string pattern = pattern_name(tensor.name);
    patterns.emplace(parent_of(pattern));
    patterns.insert(std::move(pattern));
  }
  return patterns;
}

/// Rules that cut, and are found by no tensor.
void report_unused(const TpPlan& plan, const Patterns& patterns, std::vector<Finding>& findings) {
  for (const StyleRules* rules : {&plan.tp, &plan.ep}) {
    for (const auto& [pattern, style] : *rules) {
      if (!cuts_tensors(style) || patterns.contains(pattern)) continue;
      findings.push_back(
          {Severity::report, "unused_rule", "", plan.file,
           fmt::format("{}: the rule {} matches no tensor", plan.file, quote(pattern))});
    }
  }
}

void refuse_axis(const Mesh& mesh, std::string_view axis, std::string_view why) {
  throw Error(ErrorCode::usage,
              fmt::format("axis '{}' of the mesh '{}': {}", axis, to_string(mesh), why),
              "give a --tp-plan FILE that has such rules, or --placements FILE");
}

}  // namespace

TpPlan parse_tp_plan(std::string_view json, std::string file) {
  TpPlan plan{.file = std::move(file)};
  add_rules(internal::parse_json_object(json, plan.file, ErrorCode::format), plan);
  return plan;
}

TpPlan read_tp_plan(const Syscalls& calls, const std::string& path) {
  return parse_tp_plan(read_whole_file(calls, path), path);
}

std::string pattern_name(std::string_view name) {
  std::string pattern;
  for (size_t at = 0; at < name.size();) {
    const size_t digits = at + 1;
    const size_t end = std::min(name.find_first_not_of("0123456789", digits), name.size());
    const bool is_number =
        name[at] == '.' && end > digits && (end == name.size() || name[end] == '.');
    if (!is_number) {
      pattern += name[at++];
      continue;
    }
    pattern += ".*";
    if (end < name.size()) pattern += '.';
    at = std::min(end + 1, name.size());
  }
  return pattern;
}

Sharding sharding_for(const TpPlan& plan, const MeshSet& meshes, const NamedShape& tensor) {
  return sharding_by(decide(plan, meshes, pattern_name(tensor.name)), meshes, tensor);
}

PlannedShardings shardings_for(const TpPlan& plan, const MeshSet& meshes,
                               std::span<const NamedShape> tensors) {
  check_axes(plan, meshes);
  PlannedShardings result;
  for (const NamedShape& tensor : tensors) {
    try {
      result.shardings.push_back(sharding_for(plan, meshes, tensor));
    } catch (const Error& error) {
      result.shardings.emplace_back();
      result.findings.push_back(
          {Severity::error, "bad_style", tensor.name, plan.file, error.what()});
    }
  }
  if (!plan.file.empty()) report_unused(plan, patterns_of(tensors), result.findings);
  return result;
}

void check_axes(const TpPlan& plan, const MeshSet& meshes) {
  for (const NamedMesh& named : meshes.meshes()) {
    for (const MeshAxis& axis : named.mesh.axes()) {
      if (axis.size == 1) continue;
      if (std::ranges::find(kKnownAxes, axis.name) == kKnownAxes.end()) {
        refuse_axis(named.mesh, axis.name, "a plan does not say what it cuts");
      }
      const bool lacks_rules =
          (axis.name == kTp && plan.tp.empty()) || (axis.name == kEp && plan.ep.empty());
      if (lacks_rules) refuse_axis(named.mesh, axis.name, "the plan has no rules for it");
    }
  }
}

}  // namespace weightloom
