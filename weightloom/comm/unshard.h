// Unsharding: tensors that ranks hold parts of are put together on all of them, with as few
// collectives as their steps allow.
//
// Source: unshard_tensors_for_hf_save of the LoadSpec specification, section 4.2. Parts may be
// uneven or empty: their sizes follow from the cuts, so none is padded. Merging is the layout
// algebra's inverse of cutting (sharding.h), run by the kernels of every conversion.
// Thread safety: as the groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/comm/gather_rounds.h"
#include "weightloom/comm/process_group.h"
#include "weightloom/execute/stream.h"
#include "weightloom/layout/cut.h"
#include "weightloom/sharding/load_spec.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Groups of some ranks of a program, each made when it is first asked for, and kept.
class GroupCache {
 public:
  /// Borrows the group of all ranks.
  explicit GroupCache(ProcessGroup& all) : all_(all) {}

  /// The group of all ranks.
  ProcessGroup& all() noexcept { return all_; }
  /// The group of these ranks of it, in this order. All of them ask for their groups in one order.
  /// Errors: as sub_group().
  ProcessGroup& of(const GroupRanks& ranks);

  /// Says which ranks a group's name stands for on this rank.
  void set_name(const std::string& name, GroupRanks ranks) { names_[name] = std::move(ranks); }
  /// The ranks of a group that may be named.
  /// Errors: usage if the name was not set.
  GroupRanks ranks_of(const ShardGroup& group) const;

 private:
  ProcessGroup& all_;
  std::map<GroupRanks, std::unique_ptr<ProcessGroup>> groups_;
  std::map<std::string, GroupRanks> names_;
};

/// One step back: parts of a dim are gathered.
struct GatherStep {
  GroupRanks ranks;  ///< who holds the parts, in their order; this rank among them
  int dim = 0;       ///< that was cut
  Cut cut{};         ///< how
  Shape shape;       ///< before it was cut: what the step gives on this rank
};

/// What a rank holds of a tensor, and how it becomes more of it.
struct ShardedPart {
  std::string name;                  ///< for messages
  DType dtype = DType::F32;          ///< of each element
  Shape shape;                       ///< of what this rank holds
  std::span<const std::byte> bytes;  ///< borrowed
  std::vector<GatherStep> steps{};   ///< in the order in which they are done
  LocalPart kept{};  ///< of each dim of what the last step gives the rows that stay; {}: all
};

/// A tensor that is put together, or was whole: then its bytes are those that were given.
struct UnshardedTensor {
  TensorMemory memory{};             ///< holds the bytes, or nothing
  std::span<const std::byte> bytes;  ///< of what is kept
};

/// Puts the tensors together: a collective call of all ranks of the program, which give the same
/// tensors and steps, each with its own groups and shapes. In memory at once: parts as gathered and
/// as merged, of one round, and the results.
/// Errors: usage on all ranks if a part does not fit its steps (with both shapes); plan if ranks
/// give other tensors or steps; RankError.
std::vector<UnshardedTensor> unshard_tensors(GroupCache& groups,
                                             std::span<const ShardedPart> parts);

/// Bytes of the result of unsharding a part.
/// Errors: usage if they are more than 64 bits count.
int64_t gathered_bytes(const ShardedPart& part);

/// Calls take(first, tensors) for buckets of at most `bucket_bytes` gathered bytes, in order: the
/// parts from `first` on, unsharded. Each bucket is freed before the next.
/// Errors: as unshard_tensors; what `take` throws.
void unshard_in_buckets(GroupCache& groups, std::span<const ShardedPart> parts,
                        int64_t bucket_bytes,
                        const std::function<void(size_t, std::span<const UnshardedTensor>)>& take);

}  // namespace weightloom
