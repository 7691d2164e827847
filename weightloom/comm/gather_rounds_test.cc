#include "weightloom/comm/gather_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// The cases R01, R02 and B01 of the specification's worked examples.
TEST(GatherRoundsTest, TensorsOfOneGroupShareACollectiveRoundByRound) {
  const GroupRanks fsdp = {0, 1};
  const GroupRanks ep = {0, 2};
  const GroupRanks tp = {0, 4};
  const std::vector<PendingGathers> tensors = {{DType::BF16, {fsdp}},
                                               {DType::BF16, {fsdp, ep}},
                                               {DType::BF16, {fsdp}},
                                               {DType::BF16, {tp}},
                                               {DType::BF16, {}}};
  EXPECT_THAT(gather_rounds(tensors),
              ElementsAre(ElementsAre(SharedGather{fsdp, DType::BF16, {0, 1, 2}},
                                      SharedGather{tp, DType::BF16, {3}}),
                          ElementsAre(SharedGather{ep, DType::BF16, {1}})));
}

TEST(GatherRoundsTest, DtypesDoNotShareACollective) {
  const GroupRanks group = {0, 1};
  EXPECT_THAT(
      gather_rounds(std::vector<PendingGathers>{{DType::F32, {group}}, {DType::F64, {group}}}),
      ElementsAre(
          ElementsAre(SharedGather{group, DType::F32, {0}}, SharedGather{group, DType::F64, {1}})));
}

TEST(GatherRoundsTest, TheOrderOfTheRanksIsPartOfTheGroup) {
  EXPECT_EQ(
      gather_rounds(std::vector<PendingGathers>{{DType::F32, {{0, 1}}}, {DType::F32, {{1, 0}}}})
          .front()
          .size(),
      2U);
  EXPECT_TRUE(gather_rounds({}).empty());
}

TEST(GatherRoundsTest, ABucketIsClosedBeforeItOverflows) {
  const std::vector<int64_t> bytes = {60, 20, 50, 120, 10, 90, 1};
  EXPECT_THAT(buckets_of(bytes, 100),
              ElementsAre(Pair(0, 2), Pair(2, 3), Pair(3, 4), Pair(4, 6), Pair(6, 7)));
  EXPECT_THAT(buckets_of(std::vector<int64_t>{200, 1}, 100), ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_THAT(buckets_of({}, 100), ElementsAre());
}

}  // namespace
}  // namespace weightloom
