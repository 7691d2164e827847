// How a conversion's targets are spread over ranks.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "weightloom/plan/planner_internal.h"
#include "weightloom/sharding/model_plans.h"
#include "weightloom/sharding/tp_plan.h"

namespace weightloom {
namespace {

/// What an axis cuts is declared: without a plan only fsdp and those of replicas say it by their
/// names.
void refuse_undeclared_axes(const MeshSet& meshes) {
  try {
    check_axes(TpPlan(), meshes);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.what(),
                "give --tp-plan auto, a --tp-plan FILE, or --placements FILE");
  }
}

[[noreturn]] void refuse_unknown_model(const std::string& path, bool has_config) {
  throw Error(
      ErrorCode::usage,
      has_config ? fmt::format("{}: --tp-plan auto: config.json does not tell a known model", path)
                 : fmt::format("{}: --tp-plan auto: no config.json, so the model is unknown", path),
      has_config ? "give the plan with --tp-plan FILE, or the class with --architecture"
                 : "give the plan with --tp-plan FILE");
}

bool has_axis(const MeshSet& meshes, std::string_view axis) {
  return std::ranges::any_of(meshes.meshes(), [&](const NamedMesh& each) {
    const auto place = each.mesh.find(axis);
    return place && each.mesh.axes()[*place].size > 1;
  });
}

bool cuts_along(const Sharding& sharding, std::string_view axis) {
  return std::ranges::any_of(sharding.steps, [&](const ShardingStep& step) {
    const auto* cut = std::get_if<CutStep>(&step);
    return cut != nullptr && cut->axis == axis;
  });
}

/// A model's own plan that cuts nothing along an axis is for another class, or names only what is
/// tied to the targets: replicas in place of parts would be silently wrong.
std::vector<Finding> axes_that_cut_nothing(const MeshSet& meshes,
                                           const std::vector<Sharding>& shardings) {
  std::vector<Finding> findings;
  for (const std::string_view axis : {"tp", "ep"}) {
    const bool cuts = std::ranges::any_of(
        shardings, [&](const Sharding& each) { return cuts_along(each, axis); });
    if (cuts || !has_axis(meshes, axis)) continue;
    findings.push_back({Severity::error, "nothing_cut", "", "",
                        fmt::format("the model's plan cuts no target along axis '{}': of its "
                                    "rules for it none names a target that it cuts",
                                    axis)});
  }
  return findings;
}

LayoutManifest manifest_of(const Conversion& conversion) {
  LayoutManifest manifest;
  manifest.meshes = conversion.spread->meshes;
  const auto targets = conversion.program.targets();
  for (size_t i = 0; i < targets.size(); ++i) {
    manifest.tensors.push_back(
        {targets[i].name, targets[i].dtype, targets[i].shape, conversion.spread->shardings[i]});
  }
  std::ranges::sort(manifest.tensors, {}, &ShardedTensor::name);
  return manifest;
}

}  // namespace

/// The parallel plan that the caller asks for; empty if none.
TpPlan Planner::parallel_plan() const {
  if (!selection_.tp_plan) return {};
  if (result_.to != Side::runtime && !choice_.mapping.empty()) {
    throw Error(ErrorCode::usage,
                "--tp-plan: parallel plans name tensors of the runtime layout, and the targets are "
                "in another",
                "give --to runtime");
  }
  if (*selection_.tp_plan != "auto") return read_tp_plan(calls_, *selection_.tp_plan);
  const ModelTree tree = tree_of(facts_, registry_);
  if (tree.nodes.empty()) refuse_unknown_model(source_.path(), facts_.config.present());
  return tp_plan_of(tree);
}

/// Names of the targets that are buffers of the model, as far as it is known.
RuntimeNames Planner::buffers() const {
  if (result_.to != Side::runtime && !choice_.mapping.empty()) return {};
  return buffers_of(tree_of(facts_, registry_));
}

/// Placements come first, then the plan, which cuts dim 0 by fsdp last.
std::vector<Sharding> Planner::shardings_of_targets() {
  const TpPlan plan = parallel_plan();
  const bool plans_all = selection_.tp_plan || selection_.placements.empty();
  if (!selection_.tp_plan && plans_all) refuse_undeclared_axes(*selection_.meshes);
  const RuntimeNames buffers = this->buffers();
  std::vector<Sharding> shardings;
  std::vector<NamedShape> planned;
  std::vector<size_t> places;
  for (const ProgramTarget& target : result_.program.targets()) {
    const Sharding* declared = find_placement(selection_.placements, target.name);
    if (declared == nullptr && plans_all) {
      const bool is_buffer = buffers.known() && buffers.has(target.name);
      planned.push_back({target.name, target.shape, is_buffer});
      places.push_back(shardings.size());
    } else if (declared == nullptr) {
      add_error(
          "no_placement", target.name,
          fmt::format("no rule of the placements matches '{}'; \"*\" matches all", target.name));
    }
    shardings.push_back(declared != nullptr ? *declared : Sharding());
  }
  if (planned.empty()) return shardings;
  PlannedShardings made = shardings_for(plan, *selection_.meshes, planned);
  const bool is_whole = selection_.placements.empty() && !selection_.is_partial();
  if (selection_.tp_plan == "auto" && is_whole && made.findings.empty()) {
    made.findings = axes_that_cut_nothing(*selection_.meshes, made.shardings);
  }
  std::ranges::move(made.findings, std::back_inserter(result_.findings));
  for (size_t i = 0; i < places.size(); ++i) shardings[places[i]] = std::move(made.shardings[i]);
  return shardings;
}

void Planner::spread() {
  result_.replicas = std::move(whole_.replicas);
  if (!selection_.meshes && selection_.load_specs.empty()) return;
  Spread spread = selection_.load_specs.empty() ? Spread{*selection_.meshes, shardings_of_targets()}
                                                : spread_of_specs();
  if (selection_.load_specs.empty()) spread_scales(spread);
  std::ranges::move(check_spread(result_.program, spread), std::back_inserter(result_.findings));
  result_.spread = std::move(spread);
}

Conversion for_ranks(Conversion conversion, std::span<const int64_t> ranks) {
  if (!conversion.spread) return conversion;
  const int64_t size = conversion.spread->meshes.size();
  for (const int64_t rank : ranks) {
    if (rank >= 0 && rank < size) continue;
    throw Error(ErrorCode::usage, fmt::format("there is no rank {}: the mesh '{}' has {} ranks",
                                              rank, to_string(conversion.spread->meshes), size));
  }
  conversion.manifest = manifest_of(conversion);
  RankPrograms made = program_of_ranks(conversion.program, *conversion.spread, ranks);
  conversion.program = std::move(made.program);
  conversion.ranks = std::move(made.ranks);
  conversion.made_ranks.assign(ranks.begin(), ranks.end());
  std::ranges::sort(conversion.made_ranks);
  conversion.original_files.clear();
  conversion.original_index.reset();
  conversion.kept_names.clear();
  return conversion;
}

Conversion for_all_ranks(Conversion conversion) {
  if (!conversion.spread) return conversion;
  std::vector<int64_t> ranks(static_cast<size_t>(conversion.spread->meshes.size()));
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  return for_ranks(std::move(conversion), ranks);
}

}  // namespace weightloom
