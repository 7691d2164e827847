#include "weightloom/sharding/rank_tensors.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;
using Placements = std::vector<DTensorPlacement>;
using Said = std::vector<std::vector<RankTensor>>;  // by rank
using Steps = std::vector<ShardingStep>;

constexpr DTensorPlacement kWhole{};

DTensorPlacement shard(int dim) { return {DTensorPlacement::Kind::shard, dim, 1}; }
DTensorPlacement strided(int dim, int64_t factor) {
  return {DTensorPlacement::Kind::strided_shard, dim, factor};
}

/// One tensor `w` of so many rows, as each rank has it on the mesh of its own.
struct Rows {
  std::vector<MeshAxis> axes;
  std::vector<std::vector<int64_t>> meshes;  // by rank; empty: nothing is held
  Placements placements;
  int64_t rows = 8;
  std::vector<int64_t> local_rows;  // by rank
};

Said said(const Rows& rows) {
  Said all;
  for (size_t rank = 0; rank < rows.meshes.size(); ++rank) {
    all.emplace_back();
    if (rows.meshes[rank].empty()) continue;
    all.back().push_back({"w",
                          DType::F32,
                          {rows.rows},
                          {rows.local_rows[rank]},
                          rows.axes,
                          rows.meshes[rank],
                          rows.placements});
  }
  return all;
}

std::vector<std::vector<int64_t>> everyone(int64_t ranks) {
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return std::vector(static_cast<size_t>(ranks), all);
}

std::string refusal_code(const Said& all) {
  const auto refusal = refusal_of([&] { state_of(all); });
  if (!refusal) return "accepted";
  EXPECT_EQ(refusal->code(), ErrorCode::plan);
  return refusal->findings().empty() ? refusal->what() : refusal->findings().front().code;
}

TEST(RankTensorsTest, OneMeshOfAllRanksIsTheManifests) {
  const JointState state = state_of(said({.axes = {{"dp", 2}, {"tp", 2}},
                                          .meshes = everyone(4),
                                          .placements = {strided(0, 2), shard(0)},
                                          .local_rows = {2, 2, 2, 2}}));
  EXPECT_EQ(to_string(state.manifest.meshes), "dp=2,tp=2");
  EXPECT_EQ(state.manifest.tensors.front().sharding,
            (Sharding{"", {CutStep{"tp", 0}, CutStep{"dp", 0}}}));
}

TEST(RankTensorsTest, RowsOfALargerMeshGetAnAxisOfReplicas) {
  const Rows rows{.axes = {{"tp", 2}},
                  .meshes = {{0, 1}, {0, 1}, {2, 3}, {2, 3}},
                  .placements = {shard(0)},
                  .local_rows = {4, 4, 4, 4}};
  const JointState state = state_of(said(rows));
  EXPECT_EQ(to_string(state.manifest.meshes), "replica=2,tp=2");
  EXPECT_EQ(state.manifest.tensors.front().sharding.steps, (Steps{CutStep{"tp", 0}}));
  Rows columns = rows;
  columns.meshes = {{0, 2}, {1, 3}, {0, 2}, {1, 3}};
  EXPECT_EQ(to_string(state_of(said(columns)).manifest.meshes), "tp=2,replica=2");
}

TEST(RankTensorsTest, ATensorOfSomeRanksIsOfAStage) {
  const JointState state = state_of(said({.axes = {{"tp", 2}},
                                          .meshes = {{}, {}, {2, 3}, {2, 3}},
                                          .placements = {shard(0)},
                                          .local_rows = {0, 0, 4, 4}}));
  EXPECT_EQ(state.manifest.tensors.front().sharding.steps,
            (Steps{StageStep{"replica", {1}}, CutStep{"tp", 0}}));
}

TEST(RankTensorsTest, TensorsShareTheMeshesThatTheyStandOn) {
  Said all = said({.axes = {{"dp", 2}, {"tp", 2}},
                   .meshes = everyone(4),
                   .placements = {kWhole, shard(0)},
                   .local_rows = {4, 4, 4, 4}});
  for (size_t rank = 0; rank < 4; ++rank) {
    all[rank].push_back({"b", DType::F32, {2}, {2}});
    const int64_t first = rank < 2 ? 0 : 2;
    all[rank].push_back({"a", DType::F32, {2}, {1}, {{"tp", 2}}, {first, first + 1}, {shard(0)}});
    all[rank].push_back({"z", DType::F32, {4}, {1}, {{"world", 4}}, {0, 1, 2, 3}, {shard(0)}});
  }
  const LayoutManifest manifest = state_of(all).manifest;
  EXPECT_EQ(to_string(manifest.meshes), "dp_tp: dp=2,tp=2; world: world=4");
  ASSERT_EQ(manifest.tensors.size(), 4U);
  EXPECT_EQ(manifest.tensors[0].sharding, (Sharding{"", {CutStep{"tp", 0}}}));
  EXPECT_EQ(manifest.tensors[1].sharding, Sharding());
  EXPECT_EQ(manifest.tensors[3].sharding, (Sharding{"world", {CutStep{"world", 0}}}));
  EXPECT_EQ(parse_manifest(format_manifest(manifest), "layout.json"), manifest);
}

TEST(RankTensorsTest, OfTwoOrdersThatCountsWhichFits) {
  const Rows fsdp_last{.axes = {{"dp", 3}, {"tp", 2}},
                       .meshes = everyone(6),
                       .placements = {strided(0, 2), shard(0)},
                       .rows = 7,
                       .local_rows = {2, 1, 2, 1, 0, 1}};
  EXPECT_EQ(state_of(said(fsdp_last)).manifest.tensors.front().sharding.steps,
            (Steps{CutStep{"tp", 0}, CutStep{"dp", 0}}));
  Rows distributed = fsdp_last;
  distributed.local_rows = {2, 1, 1, 1, 1, 1};
  EXPECT_EQ(refusal_code(said(distributed)), "part_mismatch");
  // Of 4 and 3 rows each is cut in 3: 2+1, 2+1, 0+1; then each in two.
  distributed.local_rows = {2, 1, 2, 1, 1, 0};
  EXPECT_EQ(state_of(said(distributed)).manifest.tensors.front().sharding.steps,
            (Steps{CutStep{"dp", 0, {.stripes = 2}}, CutStep{"tp", 0}}));
}

TEST(RankTensorsTest, WhatBothOrdersFitAndDifferInIsRefused) {
  EXPECT_EQ(refusal_code(said({.axes = {{"a", 2}, {"b", 2}, {"c", 2}},
                               .meshes = everyone(8),
                               .placements = {strided(0, 4), shard(0), strided(0, 2)},
                               .rows = 16,
                               .local_rows = std::vector<int64_t>(8, 2)})),
            "ambiguous_placements");
}

TEST(RankTensorsTest, WhatNoMeshSaysIsRefused) {
  const Rows rows{.axes = {{"tp", 4}},
                  .meshes = std::vector<std::vector<int64_t>>(4, {0, 2, 1, 3}),
                  .placements = {shard(0)},
                  .local_rows = {2, 2, 2, 2}};
  EXPECT_EQ(refusal_code(said(rows)), "mesh_order");
  EXPECT_EQ(refusal_code(said({.axes = {{"tp", 2}},
                               .meshes = {{0, 1}, {0, 1}, {2, 3}, {}},
                               .placements = {shard(0)},
                               .local_rows = {4, 4, 4, 4}})),
            "ranks_differ");
  Said twisted = said({.axes = {{"tp", 2}},
                       .meshes = {{0, 2}, {}, {0, 2}, {}, {}, {5, 7}, {}, {5, 7}},
                       .placements = {shard(0)},
                       .local_rows = std::vector<int64_t>(8, 4)});
  EXPECT_EQ(refusal_code(twisted), "stages");
}

TEST(RankTensorsTest, SecondNamesAreLeftOutWhereAllAgree) {
  Said all(2);
  for (std::vector<RankTensor>& mine : all) {
    mine.push_back({"embed", DType::F32, {1}, {1}});
    mine.push_back({"head", DType::F32, {1}, {1}});
  }
  all[0][1].tied_to = "embed";
  EXPECT_EQ(refusal_code(all), "ranks_differ");
  all[1][1].local_shape = {0};  // an empty part shares no memory with anything
  const JointState state = state_of(all);
  EXPECT_THAT(state.tied, ::testing::ElementsAre(std::pair("head", "embed")));
  EXPECT_EQ(state.manifest.tensors.size(), 1U);
  EXPECT_EQ(to_string(state.manifest.meshes), "replica=2");
}

TEST(RankTensorsTest, NothingHeldIsAStateToo) {
  EXPECT_TRUE(state_of(Said(3)).manifest.tensors.empty());
}

TEST(RankTensorsTest, EveryFaultIsTold) {
  Said all(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto mine = static_cast<int64_t>(rank);
    all[rank].push_back({"a", DType::F32, {mine}, {mine}});
    all[rank].push_back({"b", rank == 0 ? DType::F32 : DType::BF16, {1}, {1}});
  }
  const auto refusal = refusal_of([&] { state_of(all); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->findings().size(), 2U);
  EXPECT_THAT(refusal->what(), HasSubstr("tensor 'a': rank 0 holds F32 [0], whole, and rank 1 "
                                         "holds F32 [1], whole (and 1 more)"));
}

}  // namespace
}  // namespace weightloom
