// A stream of a checkpoint's tensors out of a running program, to a rollout engine: all ranks hand
// every tensor on, while each holds little more than its own part.
//
// Tensors whose shards on the expert axis are preserved come first, by buckets: each rank puts
// together the keys of its own part, and then the ranks of the expert group broadcast theirs in
// turn, key by key, slice by slice. Then the others, which all ranks of a bucket put together.
// Source: facts of the specification's weight update (EP-sequential). Thread safety: as the groups.
#pragma once

#include <cstdint>
#include <span>

#include "weightloom/base/export.h"
#include "weightloom/comm/hf_unshard.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Takes the tensors, on each rank.
class HFTensorSink {
 public:
  virtual ~HFTensorSink() = default;
  /// Slices of one tensor come one after another, in the order of their rows.
  virtual void take(const HFTensorSlice& slice) = 0;
  /// After the last.
  virtual void finish() {}
};

/// How a stream is cut.
struct HFStreamOptions {
  int64_t bucket_bytes = int64_t{1} << 30;  ///< gathered bytes at once
  int64_t slice_bytes = int64_t{64} << 20;  ///< of a tensor in one slice; one row at least
};

/// Streams: a collective call. `expert_group`: the ranks of the preserved group, in their order,
/// this rank among them. In memory at once, beyond the items: a bucket as unshard_tensors says, and
/// one slice.
/// Errors: as unshard_tensors and hf_tensors_of, on all ranks; what `sink` throws, on its rank: a
/// caller runs this guarded (run_guarded).
void stream_hf_tensors(GroupCache& groups, const GroupRanks& expert_group,
                       std::span<const HFSaveItem> items, const HFStreamOptions& options,
                       HFTensorSink& sink);

}  // namespace weightloom
