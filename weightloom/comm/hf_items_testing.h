// For tests: what a rank of four holds of a tiny model, and how it is saved.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "weightloom/comm/hf_unshard.h"
#include "weightloom/comm/parts_testing.h"

namespace weightloom::testing {

inline GroupRanks fsdp_group(int64_t rank) { return {rank / 2 * 2, rank / 2 * 2 + 1}; }
inline GroupRanks ep_group(int64_t rank) { return {rank % 2, rank % 2 + 2}; }

/// What a rank of `ep=2,fsdp=2` holds: four experts of 3 rows, cut by ep, then by fsdp, and a norm
/// of 5 padded to 6, cut by fsdp.
struct RankModel {
  explicit RankModel(int64_t rank, const SavePolicy& policy = {}) {
    const int64_t ep = rank / 2;
    const int64_t fsdp = rank % 2;
    const int64_t row = ep * 6 + fsdp * 3;
    experts = rows_of({12, 2}, 0, {{row, row + 3}});
    norm = fsdp == 0 ? std::vector<int32_t>{0, 1, 2} : std::vector<int32_t>{3, 4, 0};
    const auto shard = [](int64_t place, GroupRanks group) {
      ShardDescriptor descriptor;
      descriptor.size = 2;
      descriptor.rank = place;
      descriptor.group = std::move(group);
      return descriptor;
    };
    const LoadSpec many =
        LoadSpec::make({.name = "experts",
                        .global_hf_keys = {"e0", "e1", "e2", "e3"},
                        .global_shape = {12, 2},
                        .fused_dim = 0,
                        .shards = {shard(ep, ep_group(rank)), shard(fsdp, fsdp_group(rank))}});
    const LoadSpec one = LoadSpec::make({.name = "norm",
                                         .global_hf_keys = {"model.norm"},
                                         .global_shape = {6},
                                         .shards = {shard(fsdp, fsdp_group(rank))},
                                         .origin_shape = Shape{5}});
    items.push_back({DType::I32, {3}, bytes_of(norm), plan_hf_save(one, policy)});
    items.push_back({DType::I32, {3, 2}, bytes_of(experts), plan_hf_save(many, policy)});
  }

  std::vector<int32_t> experts;
  std::vector<int32_t> norm;
  std::vector<HFSaveItem> items;
};

}  // namespace weightloom::testing
