#include "weightloom/layout/cut.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// How many rows each part gets.
std::vector<int64_t> sizes(const Cut& cut, int64_t size, int64_t parts) {
  std::vector<int64_t> rows;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t sum = 0;
    for (const Interval& interval : part_of(cut, size, parts, part)) sum += interval.size();
    rows.push_back(sum);
  }
  return rows;
}

TEST(CutTest, ChunksAreOfTheCeilingAndTheLastMayBeEmpty) {
  EXPECT_THAT(sizes({}, 6, 4), ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(sizes({}, 9, 4), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(sizes({}, 7, 2), ElementsAre(4, 3));
  EXPECT_THAT(sizes({}, 0, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(part_of({}, 7, 2, 1), ElementsAre(Interval{4, 7}));
}

TEST(CutTest, ChunksOfHugeDimsDoNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(part_of({}, most, 2, 1), ElementsAre(Interval{most / 2 + 1, most}));
  const int64_t half = int64_t{1} << 62;
  EXPECT_THAT(part_of({}, half + 2, half + 1, half / 2), ElementsAre(Interval{half, half + 2}));
  EXPECT_THAT(part_of({}, half + 2, half + 1, half), IsEmpty());
}

TEST(CutTest, BalancedPartsDifferByOne) {
  const Cut cut{.rule = CutRule::balanced};
  EXPECT_THAT(sizes(cut, 6, 4), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(sizes(cut, 2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(part_of(cut, 6, 4, 2), ElementsAre(Interval{4, 5}));
}

TEST(CutTest, AnEvenCutRefusesWhatDoesNotDivide) {
  const Cut cut{.rule = CutRule::even};
  EXPECT_THAT(sizes(cut, 6, 3), ElementsAre(2, 2, 2));
  const auto refusal = refusal_of([&] { part_of(cut, 7, 2, 0); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_STREQ(refusal->what(), "an even cut: 7 rows do not divide by 2 parts");
}

TEST(CutTest, StripesAreCutOneByOne) {
  EXPECT_THAT(part_of({.stripes = 2}, 8, 2, 0), ElementsAre(Interval{0, 2}, Interval{4, 6}));
  // 7 rows fall into 4 and 3; each is chunked over 2.
  EXPECT_THAT(part_of({.stripes = 2}, 7, 2, 0), ElementsAre(Interval{0, 2}, Interval{4, 6}));
  EXPECT_THAT(part_of({.stripes = 2}, 7, 2, 1), ElementsAre(Interval{2, 4}, Interval{6, 7}));
  // 5 rows in 4 stripes: 2, 2, 1, 0.
  EXPECT_THAT(part_of({.stripes = 4}, 5, 2, 1), ElementsAre(Interval{1, 2}, Interval{3, 4}));
}

TEST(CutTest, UnequalGroupsAreCutOneByOne) {
  const Cut cut{.rule = CutRule::even, .groups = {4, 2, 2}};
  EXPECT_THAT(part_of(cut, 8, 2, 1), ElementsAre(Interval{2, 4}, Interval{5, 6}, Interval{7, 8}));
  EXPECT_TRUE(refusal_of([&] { part_of(cut, 9, 2, 1); }));
}

TEST(CutTest, RaggedPartsFollowUnitsInWholeBlocks) {
  const Cut cut{.rule = CutRule::ragged, .units = {1, 3, 0}, .granularity = 2};
  EXPECT_THAT(sizes(cut, 16, 3), ElementsAre(4, 12, 0));
  // The last block may be short: 4 blocks of 2 cover 7 rows.
  EXPECT_THAT(sizes(cut, 7, 3), ElementsAre(2, 5, 0));
  const auto refusal = refusal_of([&] { part_of(cut, 10, 3, 0); });
  ASSERT_TRUE(refusal);
  EXPECT_STREQ(refusal->what(), "a ragged cut: 5 blocks of 2 rows do not divide by 4 units");
}

TEST(CutTest, RoundRobinDealsRowsOut) {
  const Cut cut{.rule = CutRule::round_robin};
  EXPECT_THAT(part_of(cut, 5, 2, 0), ElementsAre(Interval{0, 1}, Interval{2, 3}, Interval{4, 5}));
  EXPECT_THAT(part_of(cut, 5, 2, 1), ElementsAre(Interval{1, 2}, Interval{3, 4}));
  EXPECT_THAT(part_of(cut, 1, 2, 1), IsEmpty());
}

TEST(CutTest, ATableGivesRowsInItsOwnOrder) {
  const Cut cut{.rule = CutRule::table, .table = {{{2, 3}, {0, 1}}, {}, {{0, 2}, {3, 3}}}};
  EXPECT_THAT(part_of(cut, 3, 3, 0), ElementsAre(Interval{2, 3}, Interval{0, 1}));
  EXPECT_THAT(part_of(cut, 3, 3, 1), IsEmpty());
  EXPECT_THAT(part_of(cut, 3, 3, 2), ElementsAre(Interval{0, 2}));
  EXPECT_TRUE(refusal_of([&] { part_of(cut, 2, 3, 0); }));
  EXPECT_TRUE(refusal_of([&] { part_of(cut, 3, 2, 0); }));
}

}  // namespace
}  // namespace weightloom
