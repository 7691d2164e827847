// For tests: load and save plans carried out on dense arrays, and held against what the spec means
// (load_spec_testing.h). Each gives what is wrong, or "".
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/sharding/hf_load_plan.h"
#include "weightloom/sharding/hf_save_plan.h"
#include "weightloom/sharding/load_spec_testing.h"

namespace weightloom::testing {

/// Copies a box of `from` into `to`, counting how often each element of `to` is written.
inline void copy_box(const Dense& from, const Shape& source_offset, Dense& to,
                     const Shape& target_offset, const Shape& size, std::vector<int>& times) {
  for (int64_t i = 0; i < elements(size); ++i) {
    const Index step = unravel(i, size);
    Index source(step.size());
    Index target(step.size());
    for (size_t d = 0; d < step.size(); ++d) {
      source[d] = source_offset[d] + step[d];
      target[d] = target_offset[d] + step[d];
      if (source[d] >= from.shape[d] || target[d] >= to.shape[d]) {
        throw std::logic_error("a box reaches beyond its tensor");
      }
    }
    to.values[ravel(target, to.shape)] = at(from, source);
    ++times[ravel(target, to.shape)];
  }
}

inline Dense zeros(const Shape& shape) {
  return built(shape, [](const Index&) { return int64_t{0}; });
}

/// The keys that a plan reads, and what they are put together.
struct LoadedKeys {
  std::vector<Dense> keys;
  Dense together;
};

inline LoadedKeys loaded_keys(const HFLoadPlan& plan, const LoadSpecFields& fields,
                              const Checkpointed& checkpoint) {
  LoadedKeys loaded;
  for (const std::string& key : plan.hf_keys) {
    const auto found = std::ranges::find(fields.global_hf_keys, key);
    loaded.keys.push_back(
        checkpoint.keys[static_cast<size_t>(found - fields.global_hf_keys.begin())]);
  }
  loaded.together =
      loaded.keys.size() == 1 ? loaded.keys[0] : dense_concat(loaded.keys, *plan.fused_dim);
  return loaded;
}

/// The names of the keys of which an element stands in `local`.
inline std::vector<std::string> keys_needed(const LoadSpecFields& fields,
                                            const Checkpointed& checkpoint, const Dense& local) {
  const std::set<int64_t> values(local.values.begin(), local.values.end());
  std::vector<std::string> needed;
  for (size_t i = 0; i < checkpoint.keys.size(); ++i) {
    if (std::ranges::any_of(checkpoint.keys[i].values,
                            [&](int64_t value) { return values.contains(value); })) {
      needed.push_back(fields.global_hf_keys[i]);
    }
  }
  return needed;
}

inline std::string slices_fault(const HFLoadPlan& plan, const LoadedKeys& loaded,
                                const Dense& wanted) {
  if (!plan.is_one_box) return plan.slices.empty() ? "" : "slices that do not say it all";
  Dense narrowed = loaded.together;
  for (const LoadSlice& slice : plan.slices) {
    narrowed = dense_slice(narrowed, slice.dim, slice.start, slice.end);
  }
  Dense local = zeros(plan.target_shape);
  std::vector<int> times(local.values.size());
  const Shape corner(narrowed.shape.size(), 0);
  copy_box(narrowed, corner, local, corner, narrowed.shape, times);
  return local == wanted ? "" : "the slices give another tensor";
}

/// Carries out a load in each of the ways that a plan tells.
inline std::string load_fault(const LoadSpecFields& fields) {
  const Checkpointed checkpoint = checkpointed(fields);
  const Dense wanted = at_rows(checkpoint.whole, held_rows(fields));
  const HFLoadPlan plan = plan_hf_load(LoadSpec::make(fields));
  if (plan.target_shape != wanted.shape) return "target_shape " + to_string(plan.target_shape);
  const auto needed = keys_needed(fields, checkpoint, wanted);
  if (plan.hf_keys != needed) return fmt::format("hf_keys {}", plan.hf_keys);
  if (plan.zero_fill != needed.empty()) return "zero_fill";
  const bool has_padding = std::ranges::count(wanted.values, 0) > 0;
  if (plan.zero_unwritten_target != has_padding) return "zero_unwritten_target";
  if (plan.zero_fill) {
    const bool is_empty = plan.key_regions.empty() && plan.copy_regions.empty();
    return is_empty && gather(plan.layout, {}) == wanted ? "" : "something is read";
  }
  const LoadedKeys loaded = loaded_keys(plan, fields, checkpoint);
  if (plan.canonical_source_shape != loaded.together.shape) return "canonical_source_shape";
  if (gather(plan.layout, loaded.keys) != wanted) return "the layout gives another tensor";
  Dense by_key = zeros(wanted.shape);
  Dense together = by_key;
  std::vector<int> times_by_key(by_key.values.size());
  std::vector<int> times_together(by_key.values.size());
  for (const KeyRegion& box : plan.key_regions) {
    copy_box(loaded.keys.at(static_cast<size_t>(box.key)), box.source_offset, by_key,
             box.target_offset, box.size, times_by_key);
  }
  for (const CopyRegion& box : plan.copy_regions) {
    copy_box(loaded.together, box.source_offset, together, box.target_offset, box.size,
             times_together);
  }
  if (by_key != wanted || together != wanted) return "the boxes give another tensor";
  if (std::ranges::max(times_by_key) > 1 || times_by_key != times_together) {
    return "an element is written twice";
  }
  return slices_fault(plan, loaded, wanted);
}

/// Undoes the steps of a save plan, with each rank of the groups at hand.
class Unsharding {
 public:
  Unsharding(const LoadSpecFields& fields, const HFSavePlan& plan, const Dense& whole)
      : fields_(fields), plan_(plan), whole_(whole), own_(own_ranks(fields)) {}

  /// What the rank at `ranks` holds once the steps from `step` on are undone.
  Dense state(size_t step, const std::vector<int64_t>& ranks) {
    if (const auto known = known_.find({step, ranks}); known != known_.end()) return known->second;
    Dense made;
    if (step == plan_.unshard_steps.size()) {
      made = at_rows(whole_, held_rows(fields_, ranks, [](size_t) { return true; }));
    } else if (plan_.unshard_steps[step].preserved) {
      made = state(step + 1, ranks);
    } else {
      made = gathered(step, ranks);
    }
    return known_.emplace(std::pair(step, ranks), std::move(made)).first->second;
  }

 private:
  Dense gathered(size_t step, const std::vector<int64_t>& ranks) {
    const SaveShardStep& how = plan_.unshard_steps[step];
    const auto dim = static_cast<size_t>(how.shard.dim);
    std::vector<Dense> parts;
    for (int64_t rank = 0; rank < *how.shard.size; ++rank) {
      std::vector<int64_t> at = ranks;
      at[step] = rank;
      parts.push_back(state(step + 1, at));
      const bool is_own_group =
          std::equal(ranks.begin(), ranks.begin() + static_cast<int64_t>(step), own_.begin());
      if (is_own_group && parts.back().shape[dim] > how.collective_local_size) {
        throw std::logic_error(fmt::format("step {}: {} rows for a collective of {}", step,
                                           parts.back().shape[dim], how.collective_local_size));
      }
    }
    const auto before = held_rows(fields_, ranks, [&](size_t i) { return i < step; });
    const int64_t rows = std::ssize(before[dim]);
    std::vector<std::pair<size_t, int64_t>> from;  // of each row: the part, and the row there
    std::vector<int64_t> next(parts.size());
    for (int64_t row = 0; row < rows; ++row) {
      size_t part = 0;
      while (!is_member(how.shard, static_cast<int64_t>(part), row, rows)) ++part;
      from.emplace_back(part, next[part]++);
    }
    Shape shape = parts.front().shape;
    shape[dim] = rows;
    return built(shape, [&](Index index) {
      const auto [part, row] = from[static_cast<size_t>(index[dim])];
      index[dim] = row;
      return at(parts[part], index);
    });
  }

  const LoadSpecFields& fields_;
  const HFSavePlan& plan_;
  const Dense& whole_;
  const std::vector<int64_t> own_;
  std::map<std::pair<size_t, std::vector<int64_t>>, Dense> known_;
};

inline Shape shape_of(const std::vector<Rows>& dims) {
  Shape shape;
  for (const Rows& rows : dims) shape.push_back(std::ssize(rows));
  return shape;
}

inline Shape visible_shape_of(const std::vector<Rows>& dims) {
  Shape shape;
  for (const Rows& rows : dims)
    shape.push_back(std::ssize(rows) - std::ranges::count(rows, kPadded));
  return shape;
}

inline std::string steps_fault(const LoadSpecFields& fields, const HFSavePlan& plan) {
  const std::vector<int64_t> ranks = own_ranks(fields);
  for (size_t i = 0; i < plan.unshard_steps.size(); ++i) {
    const SaveShardStep& step = plan.unshard_steps[i];
    const auto before = held_rows(fields, ranks, [&](size_t j) { return j < i; });
    const auto dim = static_cast<size_t>(step.shard.dim);
    if (step.shard_index != i || step.runtime_shape_before_shard != shape_of(before) ||
        step.unpadded_shape_before_shard != visible_shape_of(before)) {
      return fmt::format("step {}: shapes before the shard", i);
    }
    if (step.local_size != std::ssize(kept(before[dim], step.shard, ranks[i]))) {
      return fmt::format("step {}: local_size {}", i, step.local_size);
    }
  }
  return "";
}

/// Carries out a save: undoes the steps and takes out the keys.
inline std::string save_fault(const LoadSpecFields& fields, const SavePolicy& policy) {
  const Checkpointed checkpoint = checkpointed(fields);
  const HFSavePlan plan = plan_hf_save(LoadSpec::make(fields), policy);
  if (std::string fault = steps_fault(fields, plan); !fault.empty()) return fault;
  const Dense made = Unsharding(fields, plan, checkpoint.whole).state(0, own_ranks(fields));
  const auto rows = held_rows(fields, own_ranks(fields),
                              [&](size_t i) { return plan.unshard_steps[i].preserved; });
  if (made.shape != plan.runtime_output_shape || visible_shape_of(rows) != plan.output_shape) {
    return fmt::format("made {}, the plan says {} and {}", to_string(made.shape),
                       to_string(plan.runtime_output_shape), to_string(plan.output_shape));
  }
  if (made != at_rows(checkpoint.whole, rows)) return "the steps give another tensor";
  if (plan.key_layouts.empty()) return "";
  if (plan.key_layouts.size() != plan.hf_keys.size()) return "keys and their layouts";
  const bool has_elements = !checkpoint.whole.values.empty();
  if (has_elements && plan.preserves_shards &&
      plan.hf_keys != keys_needed(fields, checkpoint, made)) {
    return fmt::format("hf_keys {}", plan.hf_keys);
  }
  for (size_t i = 0; i < plan.hf_keys.size(); ++i) {
    const auto place =
        std::ranges::find(fields.global_hf_keys, plan.hf_keys[i]) - fields.global_hf_keys.begin();
    if (gather(plan.key_layouts[i], std::span(&made, 1)) !=
        checkpoint.keys[static_cast<size_t>(place)]) {
      return "key " + plan.hf_keys[i];
    }
  }
  return "";
}

}  // namespace weightloom::testing
