#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/hash.h"
#include "weightloom/comm/save_plan_internal.h"
#include "weightloom/execute/output_files_internal.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

size_t as_size(int64_t n) { return static_cast<size_t>(n); }

ParallelSaveOptions suited(ParallelSaveOptions options) {
  const OutputOptions& output = options.output;
  if (output.resume || output.checksums) {
    throw Error(ErrorCode::usage, "a parallel save is not resumed and makes no checksums",
                "leave resume and checksums out");
  }
  return options;
}

/// Spreads each target as the state's tensor of its name and shape.
/// Errors: plan if there is none.
Spread spread_like(const CopyProgram& program, const LayoutManifest& manifest) {
  Spread spread{manifest.meshes, {}};
  for (const ProgramTarget& target : program.targets()) {
    const auto found =
        std::ranges::lower_bound(manifest.tensors, target.name, {}, &ShardedTensor::name);
    const bool is_there = found != manifest.tensors.end() && found->name == target.name &&
                          found->shape == target.shape;
    if (!is_there) {
      throw Error(ErrorCode::plan,
                  fmt::format("target '{}' {}: no tensor of the state has this name and shape, so "
                              "nothing says how it is spread",
                              target.name, to_string(target.shape)),
                  "keep the layout of the state, or say how targets are spread");
    }
    spread.shardings.push_back(found->sharding);
  }
  return spread;
}

Conversion planned(const MemoryFiles& files, const Checkpoint& source, const Registry& registry,
                   const ParallelSaveOptions& options, const LayoutManifest& manifest) {
  if (options.selection.dequantize || options.selection.quantize) {
    throw Error(ErrorCode::unsupported, "ranks that save together neither quantise nor decode",
                "save first, then convert what was saved");
  }
  Conversion conversion =
      plan_conversion(files.calls(), source, options.selection, registry, options.run.threads);
  if (conversion.is_refused(options.selection.lenient)) {
    throw refusal_of(conversion.findings, options.selection.lenient);
  }
  if (options.sharded && !conversion.spread) {
    conversion.spread = spread_like(conversion.program, manifest);
  }
  return for_all_ranks(std::move(conversion));
}

/// The rank whose file each is, of a sharded folder.
std::vector<int64_t> homes_of(const ShardLayout& layout, int64_t ranks) {
  std::vector<int64_t> homes;
  for (const ShardFile& file : layout.files()) {
    homes.push_back(rank_of_file(file.name, ranks).value_or(kNoHome));
  }
  return homes;
}

/// Tiles take half of the budget, so that the other half is left for messages. Each has one part:
/// sources are in memory, where taking twice from one costs nothing.
ScheduleLimits limits_of(const RunOptions& run) {
  ScheduleLimits limits = limits_for(run.memory_budget_bytes / 2, run.threads);
  limits.families_apart = true;
  return limits;
}

}  // namespace

SavePlan::SavePlan(ShardedState state, const Registry& registry, ParallelSaveOptions options,
                   const Syscalls& calls, int64_t rank)
    : state_(std::move(state)),
      options_(suited(std::move(options))),
      rank_(rank),
      holders_(state_.manifest),
      outline_(outline_of_state(state_.manifest, state_.texts, calls)),
      source_(Checkpoint::open(outline_.calls(), std::string(kMemoryFolder))),
      conversion_(planned(outline_, source_, registry, options_, state_.manifest)),
      layout_(output_layout(outline_.calls(), source_, conversion_, "checkpoint", options_.output)),
      limits_(limits_of(options_.run)) {
  find_source_holders();
  divide_work();
}

uint64_t SavePlan::digest() const {
  return fnv1a64(fmt::format("{} {} {} {}", limits_.tile_bytes, limits_.worker_bytes, batch_bytes(),
                             format_manifest(state_.manifest)),
                 digest_of_output(program(), layout_));
}

MemoryFiles SavePlan::files_with(const LocalBytes& local, const Syscalls& calls) const {
  return files_of_state(state_.manifest, holders_, rank_, local, state_.texts, calls);
}

std::vector<std::span<const std::byte>> SavePlan::sources_in(const LocalBytes& local) const {
  std::vector<std::span<const std::byte>> sources;
  for (size_t i = 0; i < program().sources().size(); ++i) {
    const auto& ranks = source_holders_.sets[as_size(source_holders_.of_source[i])];
    sources.emplace_back();
    if (!std::ranges::binary_search(ranks, rank_)) continue;
    sources.back() = local.find(program().sources()[i].name)->second;
  }
  return sources;
}

void SavePlan::find_source_holders() {
  std::map<std::vector<int64_t>, int32_t> known;
  for (const ProgramSource& source : program().sources()) {
    std::vector<int64_t> ranks = holders_of(source);
    const auto [set, is_new] = known.try_emplace(ranks, static_cast<int32_t>(known.size()));
    if (is_new) source_holders_.sets.push_back(std::move(ranks));
    source_holders_.of_source.push_back(set->second);
  }
}

/// The rank that the source's file is of, and those that hold the same.
std::vector<int64_t> SavePlan::holders_of(const ProgramSource& source) const {
  const auto& tensors = state_.manifest.tensors;
  const std::string& file = program().files()[as_size(source.file)].name;
  const int64_t rank = rank_of_file(file, state_.manifest.meshes.size()).value_or(0);
  const auto tensor = std::ranges::lower_bound(tensors, source.name, {}, &ShardedTensor::name);
  const auto& owners = holders_.owners_of(as_size(tensor - tensors.begin()));
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == owners[as_size(rank)]) ranks.push_back(static_cast<int64_t>(i));
  }
  return ranks;
}

void SavePlan::divide_work() {
  std::vector<Placement> placements;
  for (const TensorPlace& place : layout_.places()) {
    placements.push_back({place.file, place.offset_bytes});
  }
  const std::vector<Tile> tiles = make_schedule(program(), placements, limits_);
  const int64_t ranks = state_.manifest.meshes.size();
  SaveDivision division =
      divide(program(), tiles, source_holders_, ranks, homes_of(layout_, ranks));
  for (OwnTile& own : division.own) {
    if (own.writer == rank_) own_.push_back(std::move(own.tile));
  }
  shared_ = std::move(division.shared);
}

}  // namespace weightloom
