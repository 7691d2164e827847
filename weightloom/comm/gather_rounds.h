// In which order shards are gathered, without data: rounds, and buckets of bounded size.
//
// A tensor that several axes have cut is put together step by step, so its steps wait for one
// another; steps of different tensors that are due at once share a collective where their group and
// dtype are the same.
// Thread safety: values, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The ranks of a collective, in the order of the parts that they hold.
using GroupRanks = std::vector<int64_t>;

/// What is still to be gathered of a tensor.
struct PendingGathers {
  DType dtype = DType::F32;          ///< of the tensor
  std::vector<GroupRanks> groups{};  ///< of its steps, in the order in which they are done
};

/// One collective.
struct SharedGather {
  GroupRanks group;           ///< who takes part
  DType dtype = DType::F32;   ///< of all its tensors
  std::vector<size_t> items;  ///< places of the tensors, ascending

  friend bool operator==(const SharedGather&, const SharedGather&) = default;
};

/// Rounds of collectives: in each, the next step of every tensor that has one, those of one group
/// and dtype together.
/// Law: as many rounds as the tensor with the most steps has.
std::vector<std::vector<SharedGather>> gather_rounds(std::span<const PendingGathers> tensors);

/// Items [begin, end) of each bucket in turn: a new one begins before an item that would overflow
/// one that has some. An item larger than a bucket is alone.
/// Units: sizes are gathered bytes, which are what is in memory.
std::vector<std::pair<size_t, size_t>> buckets_of(std::span<const int64_t> item_bytes,
                                                  int64_t bucket_bytes);

}  // namespace weightloom
