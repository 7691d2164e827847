#include "weightloom/comm/gather_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/comm/group_runs_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

RankTensor rows_of(int64_t rank) {
  return {.name = "w",
          .dtype = DType::BF16,
          .shape = {7, 3},
          .local_shape = {rank == 3 ? 1 : 2, 3},
          .axes = {{"fsdp", 4}},
          .mesh_ranks = {0, 1, 2, 3},
          .placements = {{DTensorPlacement::Kind::shard, 0, 1}}};
}

TEST(GatherStateTest, AllRanksGetWhatEachOfThemSays) {
  on_every_rank([](ProcessGroup& group) {
    std::vector<RankTensor> mine = {rows_of(group.rank())};
    if (group.rank() == 2) mine.push_back({"alone", DType::F32, {2}, {2}});
    const JointState state = gather_state(group, mine);
    EXPECT_EQ(to_string(state.manifest.meshes), "fsdp=4");
    ASSERT_EQ(state.manifest.tensors.size(), 2U);
    EXPECT_EQ(state.manifest.tensors[0].sharding.steps,
              (std::vector<ShardingStep>{StageStep{"fsdp", {2}}}));
    EXPECT_EQ(state.manifest.tensors[1].dtype, DType::BF16);
    EXPECT_EQ(state.manifest.tensors[1].sharding.steps,
              (std::vector<ShardingStep>{CutStep{"fsdp", 0}}));
  });
}

TEST(GatherStateTest, ARankThatContradictsTheOthersIsNamedOnAll) {
  on_every_rank([](ProcessGroup& group) {
    RankTensor mine = rows_of(group.rank());
    if (group.rank() == 1) mine.shape[1] = 4;
    const auto refusal = refusal_of([&] { gather_state(group, {mine}); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::plan);
    EXPECT_THAT(refusal->what(), HasSubstr("tensor 'w': rank 0 holds [2, 3] of BF16 [7, 3]"));
    EXPECT_THAT(refusal->what(), HasSubstr("rank 1 holds [2, 3] of BF16 [7, 4]"));
    group.barrier();
  });
}

}  // namespace
}  // namespace weightloom::testing
