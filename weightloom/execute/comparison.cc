// Bringing one checkpoint to the layout of another, and running the program that does it.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/execute/comparison_internal.h"
#include "weightloom/safetensors/rank_files.h"
#include "weightloom/sharding/whole_tensors.h"

namespace weightloom {
namespace {

/// True if A holds what B holds, once B is renamed. Dtypes say nothing of the layout.
bool have_equal_specs(const WholeTensors& a, const WholeTensors& b,
                      const std::vector<Rename>& renames, int threads) {
  if (a.tensors.size() != b.tensors.size()) return false;
  std::vector<std::string_view> names;
  for (const NamedLayout& tensor : b.tensors) names.push_back(tensor.name);
  const RenamedNames renamed = apply_renames(renames, names, threads);
  for (size_t i = 0; i < b.tensors.size(); ++i) {
    if (!renamed.names[i]) return false;
    const auto other =
        std::ranges::lower_bound(a.tensors, *renamed.names[i], {}, &NamedLayout::name);
    if (other == a.tensors.end() || other->name != *renamed.names[i] ||
        other->layout.shape() != b.tensors[i].layout.shape()) {
      return false;
    }
  }
  return true;
}

/// Spreads what B becomes as A is spread. What A does not have stays whole, on every rank.
void spread_like(Conversion& conversion, const Checkpoint& a, const WholeTensors& whole) {
  if (!whole.manifest) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: without {} only whole tensors can be compared with it", a.path(),
                            kManifestName),
                "convert it to whole tensors first");
  }
  Spread spread{whole.manifest->meshes, {}};
  const auto& tensors = whole.manifest->tensors;
  for (const ProgramTarget& target : conversion.program.targets()) {
    const auto found = std::ranges::lower_bound(tensors, target.name, {}, &ShardedTensor::name);
    const bool is_there =
        found != tensors.end() && found->name == target.name && found->shape == target.shape;
    spread.shardings.push_back(is_there ? found->sharding : Sharding());
  }
  conversion.spread = std::move(spread);
  conversion = for_all_ranks(std::move(conversion));
}

/// True for a checkpoint in the runtime layout on whose names the base model's prefix was changed.
bool changed_prefixes(const SideFacts& facts) {
  return facts.record && facts.record->layout == "runtime" && facts.record->model_names &&
         facts.record->model_names->edited > 0;
}

/// Nothing when A's side cannot be told: then names are compared as they are.
std::optional<Side> side_of_a(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                              const Selection& selection, const Registry& registry) {
  const SideFacts facts_a = read_side_facts(calls, a, registry.operations());
  const SideFacts facts_b = read_side_facts(calls, b, registry.operations());
  for (const auto& [checkpoint, facts] : {std::pair(&a, &facts_a), std::pair(&b, &facts_b)}) {
    const MappingChoice choice =
        choose_mapping(calls, *checkpoint, *facts, selection.mapping, registry, false);
    if (choice.mapping.empty() && !changed_prefixes(facts_b)) continue;
    if (choice.mapping.empty() && !facts_a.record) return Side::hub;
    const Side side = detect_side(a, facts_a, choice.mapping, choice.model.runtime);
    if (side != Side::unknown) return side;
  }
  return std::nullopt;
}

}  // namespace

std::vector<ProgramFile> files_of(const Checkpoint& checkpoint) {
  std::vector<ProgramFile> files;
  for (const CheckpointFile& file : checkpoint.files()) {
    files.push_back({file.name, file.path, file.status});
  }
  return files;
}

Conversion bring_to_layout_of(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                              Selection selection, const Registry& registry, int threads) {
  const WholeTensors whole_a = whole_tensors(calls, a);
  if (!selection.to &&
      !have_equal_specs(whole_a, whole_tensors(calls, b), selection.renames, threads)) {
    selection.to = side_of_a(calls, a, b, selection, registry);
  }
  Conversion conversion = plan_conversion(calls, b, selection, registry, threads);
  if (conversion.is_refused(selection.lenient)) {
    throw refusal_of(conversion.findings, selection.lenient);
  }
  if (a.is_sharded()) spread_like(conversion, a, whole_a);
  return conversion;
}

RunStatistics run_targets_apart(const Syscalls& calls, const CopyProgram& program, TileSink& sink,
                                const RunOptions& run) {
  std::vector<Placement> placements;
  for (size_t i = 0; i < program.targets().size(); ++i) {
    placements.push_back({static_cast<int32_t>(i), 0});
  }
  // Limits that the widest element divides, and so every cut does.
  constexpr int64_t kUnitBytes = 64;
  ScheduleLimits limits = limits_for(run.memory_budget_bytes, run.threads);
  limits.worker_bytes = limits.worker_bytes / (2 * kUnitBytes) * (2 * kUnitBytes);
  limits.tile_bytes = limits.tile_bytes / kUnitBytes * kUnitBytes;
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  return execute(calls, program, tiles, 0, limits, sink, run);
}

}  // namespace weightloom
