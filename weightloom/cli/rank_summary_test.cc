#include "weightloom/cli/rank_summary.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

RankSummary summary(int64_t rank, int64_t written, int64_t read) {
  return {rank, 3, 10, read, written, 4, 1};
}

TEST(FoldRanks, RanksThatDoTheSameAreOneRowWhereverTheyStand) {
  const std::vector<RankSummary> ranks = {summary(0, 10, 10), summary(1, 7, 10), summary(2, 10, 10),
                                          summary(3, 10, 10)};
  const std::vector<AlikeRanks> folded = fold_ranks(ranks);
  ASSERT_EQ(folded.size(), 2U);
  EXPECT_EQ(folded[0].text(), "{0,2..3}");
  EXPECT_EQ(folded[1].text(), "1");
}

TEST(NotableRanks, LeastMostAndSlowest) {
  const std::vector<RankSummary> ranks = {summary(0, 10, 10), summary(1, 7, 30),
                                          summary(2, 12, 10)};
  const std::vector<NotableRank> notable = notable_ranks(ranks);
  ASSERT_EQ(notable.size(), 3U);
  EXPECT_EQ(notable[0].summary.rank, 1);
  EXPECT_EQ(notable[1].summary.rank, 2);
  EXPECT_EQ(notable[2].what, "slowest");
  EXPECT_EQ(notable[2].summary.rank, 1);
}

TEST(RankSummary, AmplificationIsOneWhereNothingIsNeeded) {
  EXPECT_DOUBLE_EQ(summary(0, 1, 15).amplification(), 1.5);
  EXPECT_DOUBLE_EQ(RankSummary().amplification(), 1);
}

}  // namespace
}  // namespace weightloom::cli
