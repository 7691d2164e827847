#include "weightloom/comm/hf_unshard.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/comm/agreement.h"
#include "weightloom/execute/kernels_internal.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/lower_internal.h"

namespace weightloom {
namespace {

[[noreturn]] void misuse(const HFSavePlan& plan, const std::string& what) {
  throw Error(ErrorCode::usage, fmt::format("tensor '{}': {}", plan.name, what));
}

/// Where the rows that are no padding stand in a part.
Segments unpadded(const Segments& part) {
  Segments rows;
  int64_t at = 0;
  for (const Segment& segment : part) {
    if (!segment.is_pad) append_segment(rows, {at, segment.size, false});
    at += segment.size;
  }
  return rows;
}

LocalPart unpadded(const LocalPart& part) {
  LocalPart kept;
  for (const Segments& dim : part) kept.push_back(unpadded(dim));
  return kept;
}

/// As a tensor with a first dim.
Layout with_rows(const Layout& layout) {
  return layout.rank() == 0 ? reshape(layout, {1}) : layout;
}

int64_t first_dim(std::span<const int64_t> shape) { return shape.empty() ? 1 : shape.front(); }

}  // namespace

ShardedPart part_of_item(const HFSaveItem& item, const GroupCache& groups) {
  ShardedPart part{item.plan.name, item.dtype, item.shape, item.bytes};
  for (const size_t place : item.plan.executed_order()) {
    const SaveShardStep& step = item.plan.unshard_steps[place];
    if (!step.shard.group) misuse(item.plan, "a shard without a group cannot be gathered");
    if (!step.cut) {
      misuse(item.plan,
             "a shard that tells only its own rows cannot be gathered: give its size "
             "and rank");
    }
    part.steps.push_back({groups.ranks_of(*step.shard.group), step.shard.dim, *step.cut,
                          step.runtime_shape_before_shard});
  }
  return part;
}

std::vector<UnshardedTensor> unshard_tensors_for_hf_save(GroupCache& groups,
                                                         std::span<const HFSaveItem> items) {
  std::vector<ShardedPart> parts;
  run_agreed(groups.all(), [&] {
    for (const HFSaveItem& item : items) {
      parts.push_back(part_of_item(item, groups));
      parts.back().kept = unpadded(item.plan.output_part);
    }
  });
  return unshard_tensors(groups, parts);
}

std::vector<HFTensorSource> hf_tensors_of(const HFSaveItem& item) {
  const HFSavePlan& plan = item.plan;
  if (plan.key_layouts.size() != plan.hf_keys.size()) {
    misuse(plan, "what is gathered of it does not hold whole keys");
  }
  std::vector<HFTensorSource> tensors;
  for (int64_t key = plan.fused_key_range.begin; key < plan.fused_key_range.end; ++key) {
    const auto i = static_cast<size_t>(key);
    tensors.push_back({plan.hf_keys[i], item.dtype, plan.key_layouts[i]});
  }
  return tensors;
}

int64_t rows_of_slice(DType dtype, std::span<const int64_t> shape, int64_t slice_bytes) {
  const int64_t rows = std::max<int64_t>(first_dim(shape), 1);
  const int64_t row_bytes = checked_bytes(dtype, shape).value_or(0) / rows;
  return std::clamp<int64_t>(slice_bytes / std::max<int64_t>(row_bytes, 1), 1, rows);
}

std::vector<Interval> slices_of(DType dtype, std::span<const int64_t> shape, int64_t slice_bytes) {
  const int64_t step = rows_of_slice(dtype, shape, slice_bytes);
  std::vector<Interval> slices;
  for (int64_t row = 0; row < first_dim(shape); row += step) {
    slices.push_back({row, std::min(row + step, first_dim(shape))});
  }
  if (slices.empty()) slices.push_back({0, 0});  // an empty tensor is told all the same
  return slices;
}

void copy_rows(const HFTensorSource& tensor, const Interval& rows,
               std::span<const std::byte> unsharded, std::span<std::byte> memory) {
  const Lowered lowered =
      lower_to_bytes(slice(with_rows(tensor.layout), 0, rows.begin, rows.end), tensor.dtype);
  if (lowered.refusal) {
    throw Error(ErrorCode::unsupported,
                fmt::format("tensor '{}': {}", tensor.name, *lowered.refusal));
  }
  for (const Region& region : lowered.regions) {
    if (region.is_pad()) {
      fill_region(region, memory.data());
    } else {
      copy_region(region, unsharded.data(), memory.data());
    }
  }
}

}  // namespace weightloom
