// Tensors of a program and the plans of their save: put together, and taken apart into the tensors
// of a checkpoint.
//
// Source: the specification "LoadSpec", section 4.2. Thread safety: as the groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/comm/unshard.h"
#include "weightloom/sharding/hf_save_plan.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What this rank holds of a tensor, and how it is saved.
struct HFSaveItem {
  DType dtype = DType::F32;          ///< of each element
  Shape shape;                       ///< of what this rank holds
  std::span<const std::byte> bytes;  ///< borrowed
  HFSavePlan plan;                   ///< of this rank
};

/// The plan's steps that are not preserved, as a part to unshard; padding stays.
/// Errors: usage if a shard tells only its own rows or no group, or a group's name is not set.
ShardedPart part_of_item(const HFSaveItem& item, const GroupCache& groups);

/// The tensors without padding, each of its plan's output_shape.
/// Errors: as unshard_tensors and part_of_item, on all ranks.
std::vector<UnshardedTensor> unshard_tensors_for_hf_save(GroupCache& groups,
                                                         std::span<const HFSaveItem> items);

/// Rows of a tensor of the checkpoint, all of its other dims.
struct HFTensorSlice {
  std::string_view name;             ///< the key
  DType dtype = DType::F32;          ///< of each element
  std::span<const int64_t> shape;    ///< of the whole tensor
  Interval rows;                     ///< of its first dim; of a tensor without dims [0, 1)
  std::span<const std::byte> bytes;  ///< of these rows; borrowed until the call returns
};

/// A tensor of the checkpoint that stands in an unsharded one.
struct HFTensorSource {
  std::string name;          ///< the key
  DType dtype = DType::F32;  ///< of each element
  Layout layout;             ///< over the unsharded tensor, padding included
};
/// Those that the plan gives: of the keys the part that a receiver takes.
/// Errors: usage if the plan keeps shards that do not hold whole keys.
std::vector<HFTensorSource> hf_tensors_of(const HFSaveItem& item);

/// Rows that a slice of at most `slice_bytes` holds of a tensor; at least one.
int64_t rows_of_slice(DType dtype, std::span<const int64_t> shape, int64_t slice_bytes);
/// The rows of a slice in turn: [0, n), [n, 2n), …
std::vector<Interval> slices_of(DType dtype, std::span<const int64_t> shape, int64_t slice_bytes);

/// Copies rows of a tensor of the checkpoint out of the unsharded one.
/// Precondition: `memory` has their size.
void copy_rows(const HFTensorSource& tensor, const Interval& rows,
               std::span<const std::byte> unsharded, std::span<std::byte> memory);

}  // namespace weightloom
