#include "weightloom/layout/factor_clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;

Region parsed(const std::string& text) {
  return parse_layout("(1000000):[" + text + "]").regions()[0];
}

std::vector<std::string> texts(const std::vector<Region>& regions) {
  std::vector<std::string> result;
  for (const Region& region : regions) result.push_back(to_string(region));
  return result;
}

/// A random region of up to four axes, nested on both sides.
Region random_region(SeededDraw& draw) {
  Region region;
  region.source = 0;
  int64_t target_span = 0;
  int64_t source_span = 0;
  for (int64_t rank = draw(5); rank > 0; --rank) {
    Axis axis{2 + draw(6), target_span + 1 + draw(5), source_span + 1 + draw(3)};
    target_span += (axis.extent - 1) * axis.target_stride;
    source_span += (axis.extent - 1) * axis.source_stride;
    region.axes.insert(region.axes.begin(), axis);
  }
  region.target_offset = draw(50);
  region.source_offset = draw(50);
  return region;
}

template <typename Check>
void for_each_region(Check check) {
  SeededDraw draw(test_seed());
  for (int i = 0; i < 3000; ++i) {
    const Region region = random_region(draw);
    const int64_t m = 1 + draw(60);
    SCOPED_TRACE(::testing::Message()
                 << "WEIGHTLOOM_SEED=" << test_seed() << ": " << to_string(region) << " by " << m);
    check(region, m, draw);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FactorTest, KeepsThePairsAndNothingCarries) {
  for_each_region([](const Region& region, int64_t m, SeededDraw&) {
    const std::vector<Region> pieces = factor(region, m);
    ASSERT_EQ(pairs_of(pieces), pairs_of(std::vector<Region>{region}));
    for (const Region& piece : pieces) ASSERT_TRUE(is_factored(piece, m)) << to_string(piece);
  });
}

TEST(FactorTest, PiecesStayNested) {
  for_each_region([](const Region& region, int64_t m, SeededDraw&) {
    for (const Region& piece : factor(region, m)) {
      ASSERT_TRUE(nested_on_target(piece)) << to_string(piece);
      ASSERT_TRUE(nested_on_source(piece)) << to_string(piece);
    }
  });
}

TEST(FactorTest, OffsetsOfAPieceAreQuotientsAndRemaindersOfItsAxes) {
  for_each_region([](const Region& region, int64_t m, SeededDraw&) {
    for (const Region& piece : factor(region, m)) {
      int64_t remainder = piece.target_offset % m;
      for (const Axis& axis : piece.axes) {
        if (axis.target_stride % m != 0) remainder += (axis.extent - 1) * axis.target_stride;
      }
      ASSERT_LT(remainder, m) << to_string(piece);
    }
  });
}

TEST(FactorTest, SplitsARunAtTheEndsOfBlocks) {
  // Elements 3..12 in blocks of 4: 3 | 4..7, 8..11 | 12.
  EXPECT_THAT(texts(factor(parsed("3<-s0+0 (10:1<-1)"), 4)),
              ElementsAre("3<-s0+0", "4<-s0+1 (2:4<-4, 4:1<-1)", "12<-s0+9"));
}

TEST(FactorTest, LeavesAloneWhatDoesNotCarry) {
  const std::string rows = "2<-s0+0 (5:8<-3, 3:1<-1)";
  EXPECT_THAT(texts(factor(parsed(rows), 8)), ElementsAre(rows));
  EXPECT_THAT(texts(factor(parsed(rows), 1000)), ElementsAre(rows));
}

TEST(FactorTest, GivesAtMostTwicePlusOneWhereStridesDivideOneAnother) {
  SeededDraw draw(test_seed());
  for (int i = 0; i < 3000; ++i) {
    // Strides and m are products along one chain of divisors.
    std::vector<int64_t> chain = {1};
    while (chain.size() < 7) chain.push_back(chain.back() * (2 + draw(2)));
    Region region;
    region.source = 0;
    int64_t span = 0;
    for (const int64_t stride : chain) {
      if (stride <= span || draw(3) == 0) continue;
      const int64_t extent = 2 + draw(6);
      region.axes.insert(region.axes.begin(), {extent, stride, stride});
      span += (extent - 1) * stride;
    }
    region.target_offset = draw(200);
    const int64_t m = chain[static_cast<size_t>(draw(7))];
    const auto unaligned = std::ranges::count_if(
        region.axes, [m](const Axis& axis) { return axis.target_stride % m != 0; });
    ASSERT_LE(std::ssize(factor(region, m)), 2 * unaligned + 1)
        << "WEIGHTLOOM_SEED=" << test_seed() << ": " << to_string(region) << " by " << m;
  }
}

TEST(ClipTest, KeepsExactlyThePairsInTheWindow) {
  for_each_region([](const Region& region, int64_t m, SeededDraw& draw) {
    const int64_t lo = draw(m + 1);
    const int64_t hi = lo + draw(m - lo + 1);
    std::vector<Region> clipped;
    for (const Region& piece : factor(region, m)) {
      for (const Region& part : clip(piece, m, lo, hi)) clipped.push_back(part);
    }
    std::vector<Pair> expected;
    for (const Pair& pair : pairs_of(std::vector<Region>{region})) {
      if (lo <= pair.target % m && pair.target % m < hi) expected.push_back(pair);
    }
    ASSERT_EQ(pairs_of(clipped), expected) << "[" << lo << ", " << hi << ")";
  });
}

TEST(ClipTest, CutsTheStepsThatCrossTheWindow) {
  // Rows 0-2, 4-6, 8-10 of one block of 12, elements [1, 9): all of row 1, parts of rows 0 and 2.
  EXPECT_THAT(texts(clip(parsed("0<-s0+0 (3:4<-3, 3:1<-1)"), 12, 1, 9)),
              ElementsAre("4<-s0+3 (3:1<-1)", "1<-s0+1 (2:1<-1)", "8<-s0+6"));
}

}  // namespace
}  // namespace weightloom::testing
