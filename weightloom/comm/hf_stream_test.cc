#include "weightloom/comm/hf_stream.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/hf_items_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Keeps what comes.
struct Kept : HFTensorSink {
  void take(const HFTensorSlice& slice) override {
    if (!tensors.contains(std::string(slice.name))) order.emplace_back(slice.name);
    auto& numbers = tensors[std::string(slice.name)];
    const auto more = numbers_of(slice.bytes);
    EXPECT_EQ(std::ssize(numbers) / (slice.shape.size() == 2 ? 2 : 1), slice.rows.begin);
    numbers.insert(numbers.end(), more.begin(), more.end());
    largest = std::max(largest, slice.bytes.size());
  }
  void finish() override { ++finished; }

  std::vector<std::string> order;
  std::map<std::string, std::vector<int32_t>> tensors;
  size_t largest = 0;
  int finished = 0;
};

TEST(HFStreamTest, ExpertsComeRankByRankAndThenTheRest) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const GroupRanks ep = ep_group(group.rank());
    const RankModel model(group.rank(), {.preserve_process_group = ep});
    Kept kept;
    stream_hf_tensors(groups, ep, model.items, {.slice_bytes = 16}, kept);
    EXPECT_THAT(kept.order, ElementsAre("e0", "e1", "e2", "e3", "model.norm"));
    for (int64_t expert = 0; expert < 4; ++expert) {
      EXPECT_THAT(kept.tensors["e" + std::to_string(expert)],
                  ElementsAreArray(rows_of({12, 2}, 0, {{expert * 3, expert * 3 + 3}})));
    }
    EXPECT_THAT(kept.tensors["model.norm"], ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(kept.largest, 16U) << "two rows of an expert, four of the norm";
    EXPECT_EQ(kept.finished, 1);
  });
}

TEST(HFStreamTest, WithoutAPolicyAllIsGatheredInBuckets) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const RankModel model(group.rank());
    Kept kept;
    stream_hf_tensors(groups, ep_group(group.rank()), model.items, {.bucket_bytes = 1}, kept);
    EXPECT_THAT(kept.order, ElementsAre("model.norm", "e0", "e1", "e2", "e3"));
    EXPECT_THAT(kept.tensors["e3"], ElementsAreArray(rows_of({12, 2}, 0, {{9, 12}})));
  });
}

TEST(HFStreamTest, UnshardingForASaveCutsPaddingOff) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const RankModel model(group.rank());
    const auto tensors = unshard_tensors_for_hf_save(groups, model.items);
    EXPECT_THAT(numbers_of(tensors[0].bytes), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(numbers_of(tensors[1].bytes), ElementsAreArray(counted({12, 2})));
  });
}

TEST(HFStreamTest, AGroupThatIsNotKnownIsRefusedOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    RankModel model(group.rank());
    if (group.rank() == 2) {
      model.items[0].plan.unshard_steps[0].shard.group = ShardGroup(std::string("fsdp"));
    }
    const auto refusal = refusal_of([&] { unshard_tensors_for_hf_save(groups, model.items); });
    ASSERT_TRUE(refusal);
    EXPECT_STREQ(refusal->what(), "rank 2: no group is called 'fsdp'");
    groups.set_name("fsdp", fsdp_group(group.rank()));
    EXPECT_THAT(numbers_of(unshard_tensors_for_hf_save(groups, model.items)[0].bytes),
                ElementsAre(0, 1, 2, 3, 4));
  });
}

}  // namespace
}  // namespace weightloom::testing
