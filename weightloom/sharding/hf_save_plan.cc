#include "weightloom/sharding/hf_save_plan.h"

#include <algorithm>
#include <numeric>
#include <ranges>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/base/quote.h"
#include "weightloom/layout/operations.h"
#include "weightloom/sharding/spec_adapter.h"

namespace weightloom {
namespace {

template <typename... Args>
[[noreturn]] void refuse(const LoadSpec& spec, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format("LoadSpec {}: {}", quote(spec.name()),
                                            fmt::format(text, std::forward<Args>(args)...)));
}

void refuse_both(const LoadSpec& spec, bool one, bool other, const char* names) {
  if (one && other) refuse(spec, "a save policy has one of {}", names);
}

void check_policy(const LoadSpec& spec, const SavePolicy& policy) {
  const bool preserves = policy.preserve_process_group.has_value();
  const bool gathers = policy.gather_process_group.has_value();
  const auto& partition = policy.target_fused_key_partition;
  refuse_both(spec, preserves, gathers, "preserve_process_group and gather_process_group");
  refuse_both(spec, policy.distributed_save, preserves,
              "distributed_save and preserve_process_group");
  refuse_both(spec, policy.distributed_save, gathers, "distributed_save and gather_process_group");
  refuse_both(spec, partition.has_value(), preserves,
              "target_fused_key_partition and preserve_process_group");
  refuse_both(spec, partition.has_value(), policy.distributed_save,
              "target_fused_key_partition and distributed_save");
  if (!partition) return;
  const int64_t keys = std::ssize(spec.global_hf_keys());
  if (!spec.is_fused()) refuse(spec, "a single key cannot be parted among receivers");
  if (partition->size < 1 || keys % partition->size != 0) {
    refuse(spec, "{} keys do not divide among {} receivers", keys, partition->size);
  }
  if (partition->rank < 0 || partition->rank >= partition->size) {
    refuse(spec, "there is no receiver {} of {}", partition->rank, partition->size);
  }
}

bool is_preserved(const LoadSpec& spec, const ShardDescriptor& shard, const SavePolicy& policy) {
  if (policy.gather_process_group) return shard.group != policy.gather_process_group;
  if (!policy.preserve_process_group) return false;
  return spec.is_fused() && shard.dim == *spec.fused_dim() &&
         shard.group == policy.preserve_process_group;
}

Shape visible_shape(const LocalPart& part) {
  Shape shape;
  for (const Segments& segments : part) {
    int64_t rows = 0;
    for (const Segment& segment : segments) rows += segment.is_pad ? 0 : segment.size;
    shape.push_back(rows);
  }
  return shape;
}

/// Rows that a shard keeps of `left`, padding that follows the cut not counted.
int64_t rows_kept(const ShardDescriptor& shard, int64_t left) {
  if (!shard.size) return *shard.end - *shard.start;
  int64_t rows = 0;
  const Cut cut{.stripes = shard.interleave};
  for (const Interval& mine : part_of(cut, left, *shard.size, *shard.rank)) rows += mine.size();
  return rows;
}

SaveShardStep step_of(const LoadSpec& spec, size_t place, const SavePolicy& policy) {
  std::vector<size_t> places(place + 1);
  std::iota(places.begin(), places.end(), size_t{0});
  const LocalPart before = local_part(spec, std::span(places).first(place));
  const LocalPart after = local_part(spec, places);
  SaveShardStep step{place, spec.shards()[place]};
  const auto dim = static_cast<size_t>(step.shard.dim);
  step.runtime_shape_before_shard = local_shape(before);
  step.unpadded_shape_before_shard = visible_shape(before);
  const int64_t left = length(before[dim]);
  step.local_size = rows_kept(step.shard, left);
  step.collective_local_size = length(after[dim]);
  if (step.shard.size) {
    step.cut = Cut{.stripes = step.shard.interleave};
    step.collective_local_size =
        std::max(step.collective_local_size, ceil_div(left, *step.shard.size));
  }
  step.preserved = is_preserved(spec, step.shard, policy);
  return step;
}

/// What is cut inside a cut that is undone cannot stay.
void refuse_inner(const LoadSpec& spec, const std::vector<SaveShardStep>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t j = i + 1; j < steps.size(); ++j) {
      if (steps[i].preserved || !steps[j].preserved) continue;
      if (steps[i].shard.dim != steps[j].shard.dim) continue;
      refuse(spec, "shard {} is preserved, but stands inside shard {} of dim {}, which is gathered",
             j, i, steps[i].shard.dim);
    }
  }
}

/// Where the rows of a dim stand in a part of it: its segments, turned round. Rows that the part
/// does not hold are pads.
Segments turned_round(const Segments& part, int64_t rows) {
  std::vector<std::pair<int64_t, Segment>> held;  // row of the dim, segment of the part
  int64_t at = 0;
  for (const Segment& segment : part) {
    if (!segment.is_pad) held.emplace_back(segment.begin, Segment{at, segment.size, false});
    at += segment.size;
  }
  std::ranges::sort(held, {}, [](const auto& entry) { return entry.first; });
  Segments turned;
  int64_t row = 0;
  for (const auto& [begin, segment] : held) {
    append_segment(turned, {0, begin - row, true});
    append_segment(turned, segment);
    row = begin + segment.size;
  }
  append_segment(turned, {0, rows - row, true});
  return turned;
}

/// Each key of the spec over what a part holds; what the part does not hold is padding.
std::vector<Layout> keys_over(const LoadSpec& spec, const LocalPart& part,
                              const ModelConfig& config) {
  LocalPart turned;
  for (size_t d = 0; d < part.size(); ++d) {
    turned.push_back(turned_round(part[d], spec.unpadded_global_shape()[d]));
  }
  return taken_apart(spec, select(identity(0, local_shape(part)), turned),
                     std::ssize(spec.global_hf_keys()), config);
}

int64_t elements_held(const Layout& layout) {
  int64_t held = 0;
  for (const Region& region : layout.regions()) held += region.is_pad() ? 0 : volume(region);
  return held;
}

/// Keeps the keys that the plan's part holds.
void keep_held_keys(HFSavePlan& plan, const LoadSpec& spec, std::vector<Layout> keys) {
  plan.hf_keys.clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t held = elements_held(keys[i]);
    const std::string& key = spec.global_hf_keys()[i];
    if (held == 0 && keys[i].size() > 0) continue;
    if (held != keys[i].size()) {
      refuse(spec, "the shards preserved hold {} of {} elements of key {}: needed whole keys", held,
             keys[i].size(), quote(key));
    }
    plan.hf_keys.push_back(key);
    plan.key_layouts.push_back(std::move(keys[i]));
  }
}

void check_arguments(int64_t keys, int64_t world_size, int64_t max_save_rank) {
  if (keys >= 1 && world_size >= 1 && max_save_rank >= 1) return;
  throw Error(ErrorCode::usage, fmt::format("{} keys written by at most {} of {} ranks", keys,
                                            max_save_rank, world_size));
}

}  // namespace

std::vector<size_t> HFSavePlan::executed_order() const {
  std::vector<size_t> order;
  for (size_t i = unshard_steps.size(); i-- > 0;) {
    if (!unshard_steps[i].preserved) order.push_back(i);
  }
  return order;
}

HFSavePlan plan_hf_save(const LoadSpec& spec, const SavePolicy& policy, const ModelConfig& config) {
  if (!spec.is_bound())
    refuse(spec, "its shards are along axes of a mesh: bind it to a rank first");
  check_policy(spec, policy);
  HFSavePlan plan;
  plan.name = spec.name();
  plan.hf_keys = spec.global_hf_keys();
  plan.global_shape = spec.global_shape();
  plan.unpadded_global_shape = spec.unpadded_global_shape();
  plan.fused_dim = spec.fused_dim();
  plan.distributed_save = policy.distributed_save;
  std::vector<size_t> preserved;
  for (size_t i = 0; i < spec.shards().size(); ++i) {
    plan.unshard_steps.push_back(step_of(spec, i, policy));
    if (plan.unshard_steps.back().preserved) preserved.push_back(i);
  }
  refuse_inner(spec, plan.unshard_steps);
  plan.preserves_shards = !preserved.empty();
  plan.output_part = local_part(spec, preserved);
  plan.runtime_output_shape = local_shape(plan.output_part);
  plan.output_shape = visible_shape(plan.output_part);
  if (policy.gather_process_group && plan.preserves_shards) {
    if (policy.target_fused_key_partition) {
      refuse(spec, "keys are parted among receivers once they are whole, and shards are preserved");
    }
  } else {
    keep_held_keys(plan, spec, keys_over(spec, plan.output_part, config));
  }
  const int64_t keys = std::ssize(plan.hf_keys);
  plan.fused_key_range = {0, keys};
  if (const auto& partition = policy.target_fused_key_partition) {
    const int64_t each = keys / partition->size;
    plan.fused_key_range = {partition->rank * each, (partition->rank + 1) * each};
  }
  return plan;
}

int64_t save_rank_count(int64_t keys, int64_t world_size, int64_t max_save_rank) {
  check_arguments(keys, world_size, max_save_rank);
  int64_t count = std::min({world_size, max_save_rank, keys});
  while (keys % count != 0) --count;
  return count;
}

Interval save_key_range(int64_t keys, int64_t rank, int64_t world_size, int64_t max_save_rank) {
  const int64_t count = save_rank_count(keys, world_size, max_save_rank);
  if (rank < 0 || rank >= count) return {};
  return {rank * (keys / count), (rank + 1) * (keys / count)};
}

}  // namespace weightloom
