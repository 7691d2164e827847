// What a save does to one tensor: which cuts are undone, and which keys come out.
//
// Cuts are undone from the inside out, each by gathering along its group, but for those that the
// policy preserves. A snapshot, which does not refer to the spec it was made of.
// Source: the specification "LoadSpec", sections 2.4, 3.2 and 3.3. Thread safety: values, pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/layout/cut.h"
#include "weightloom/layout/layout.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/sharding/load_spec.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Which of so many receivers takes its contiguous part of the fused keys.
struct KeyPartition {
  int64_t rank = 0;  ///< of the receiver
  int64_t size = 1;  ///< number of receivers

  friend bool operator==(const KeyPartition&, const KeyPartition&) = default;
};

/// What of a tensor a save makes whole, and who writes it. The default gathers everything.
struct SavePolicy {
  /// A save of a checkpoint: a single key is written by one rank, fused keys by several (see
  /// save_key_range).
  bool distributed_save = false;
  /// Shards on fused_dim of this group stay, so that each rank yields its own keys; tensors of a
  /// single key are gathered.
  std::optional<ShardGroup> preserve_process_group{};
  /// Only shards of this group are gathered.
  std::optional<ShardGroup> gather_process_group{};
  /// After gathering, a receiver takes its part of the keys.
  std::optional<KeyPartition> target_fused_key_partition{};
};

/// One cut, and how it is undone.
struct SaveShardStep {
  size_t shard_index = 0;   ///< of the spec's shards
  ShardDescriptor shard{};  ///< that one
  /// Its rule, with which part_of says what each rank of the group holds of the dim; nothing where
  /// the shard tells only its own rows: then the ranks must tell one another.
  std::optional<Cut> cut{};
  Shape runtime_shape_before_shard{};   ///< of the tensor that was cut
  Shape unpadded_shape_before_shard{};  ///< of what a checkpoint sees of it
  int64_t local_size = 0;               ///< rows of shard.dim that this rank cut out of it
  /// Rows that each rank gives to the collective: the longest part, and its padding.
  int64_t collective_local_size = 0;
  bool preserved = false;  ///< stays as it is
};

/// See the top of this file.
struct HFSavePlan {
  std::string name;  ///< of the tensor in the program
  /// That come out: of the shards preserved those that they hold (a key without elements anyone
  /// holds), else those of the spec; with gather_process_group those of the spec.
  std::vector<std::string> hf_keys;
  Shape global_shape;                        ///< of the spec
  Shape unpadded_global_shape;               ///< of the spec
  std::optional<int> fused_dim;              ///< along which keys are put together
  bool distributed_save = false;             ///< of the policy
  bool preserves_shards = false;             ///< hf_keys are those of a part of the tensor
  std::vector<SaveShardStep> unshard_steps;  ///< in the order of the shards; undone backwards

  /// What the tensor is once the steps that are not preserved are undone.
  LocalPart output_part;
  Shape runtime_output_shape;  ///< of that tensor
  Shape output_shape;          ///< of it without padding
  /// Of hf_keys, those that target_fused_key_partition gives: [begin, end). Else all.
  Interval fused_key_range;
  /// Each of hf_keys over that tensor (source 0), as the checkpoint has it; empty where shards are
  /// preserved that do not hold whole keys (gather_process_group).
  std::vector<Layout> key_layouts;

  /// Places in unshard_steps in the order in which they are undone.
  std::vector<size_t> executed_order() const;
};

/// How the tensor of a bound spec is saved.
/// Errors: usage, naming the spec: it is not bound; the policy says two things that exclude one
/// another (preserve and gather; a partition and preserve or distributed_save; distributed_save and
/// preserve or gather); a partition of a tensor that is not fused or not gathered, or that does not
/// divide its keys; preserved shards that cut keys, or stand inside one that is gathered.
HFSavePlan plan_hf_save(const LoadSpec& spec, const SavePolicy& policy,
                        const ModelConfig& config = {});

/// Without more words at most so many ranks write the keys of one tensor.
inline constexpr int64_t kMaxSaveRank = 16;
/// How many ranks write the keys of a tensor: one for a single key, else the most that divide them.
/// Errors: usage if an argument is below 1.
int64_t save_rank_count(int64_t keys, int64_t world_size, int64_t max_save_rank = kMaxSaveRank);
/// The keys [begin, end) that `rank` writes; each key is written by one rank.
/// Errors: as save_rank_count.
Interval save_key_range(int64_t keys, int64_t rank, int64_t world_size,
                        int64_t max_save_rank = kMaxSaveRank);

}  // namespace weightloom
