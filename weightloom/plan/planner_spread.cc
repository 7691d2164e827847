// How a conversion's targets are spread over ranks.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "weightloom/plan/planner_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kFsdpAxis = "fsdp";

/// Without other word, fsdp cuts the outermost dim, and dp holds replicas.
Sharding default_sharding(const Mesh& mesh, const Shape& shape) {
  Sharding sharding;
  if (mesh.find(kFsdpAxis) && !shape.empty()) {
    sharding.steps.push_back(CutStep{std::string(kFsdpAxis), 0});
  }
  return sharding;
}

/// What an axis cuts is declared: only fsdp and dp say by their names what becomes of tensors.
void refuse_undeclared_axes(const Mesh& mesh) {
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == kFsdpAxis || axis.name == "dp" || axis.size == 1) continue;
    throw Error(ErrorCode::usage,
                fmt::format("nothing says what axis '{}' of the mesh '{}' cuts", axis.name,
                            to_string(mesh)),
                "give --tp-plan auto, a --tp-plan FILE, or --placements FILE");
  }
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

void Planner::spread() {
  result_.replicas = std::move(whole_.replicas);
  if (!selection_.meshes) return;
  Spread spread{*selection_.meshes, {}};
  if (selection_.placements.empty()) refuse_undeclared_axes(spread.meshes.first());
  for (const ProgramTarget& target : result_.program.targets()) {
    const Sharding* declared = find_placement(selection_.placements, target.name);
    if (declared == nullptr && !selection_.placements.empty()) {
      add_error(
          "no_placement", target.name,
          fmt::format("no rule of the placements matches '{}'; \"*\" matches all", target.name));
    }
    spread.shardings.push_back(
        declared != nullptr ? *declared : default_sharding(spread.meshes.first(), target.shape));
  }
  for (Finding& finding : check_spread(result_.program, spread)) {
    result_.findings.push_back(std::move(finding));
  }
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
