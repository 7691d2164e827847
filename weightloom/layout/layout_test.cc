#include "weightloom/layout/layout.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

Region region(int64_t target_offset, int64_t source_offset, AxisList axes) {
  return {0, 0, source_offset, target_offset, std::move(axes)};
}

void expect_refused(const Shape& shape, const Region& bad, const std::string& message) {
  try {
    Layout::make(shape, {bad});
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(RegionTest, VolumeAndSpansAreThoseOfTheAxes) {
  const Region r = region(5, 0, {{2, 10, 30}, {3, 2, 4}});
  EXPECT_EQ(volume(r), 6);
  EXPECT_EQ(target_span(r), 14);
  EXPECT_EQ(source_span(r), 38);
  EXPECT_EQ(volume(region(5, 0, {})), 1);
}

TEST(RegionTest, NestedMeansThatEachStrideExceedsTheSpanOfTheSmallerOnes) {
  EXPECT_TRUE(nested_on_target(region(0, 0, {{2, 5, 1}, {3, 2, 1}})));   // 5 > 2·2
  EXPECT_FALSE(nested_on_target(region(0, 0, {{2, 4, 1}, {3, 2, 1}})));  // 4 = 2·2
  EXPECT_FALSE(nested_on_target(region(0, 0, {{2, 0, 1}})));
  EXPECT_FALSE(nested_on_source(region(0, 0, {{2, 5, 2}, {3, 2, 1}})));
  EXPECT_TRUE(nested_on_source(region(0, 0, {{2, 5, 1}, {3, 2, 2}})));  // in any order
}

TEST(RegionTest, NormalFormDropsSortsAndMerges) {
  const Region r = normalized(region(0, 0, {{1, 99, 99}, {4, 1, 1}, {3, 4, 4}, {2, 24, 12}}));
  EXPECT_THAT(r.axes, ElementsAre(Axis{2, 24, 12}, Axis{12, 1, 1}));
}

TEST(RegionTest, NormalFormKeepsAxesApartThatMergeOnOneSideOnly) {
  const Region r = normalized(region(0, 0, {{3, 4, 5}, {4, 1, 1}}));
  EXPECT_EQ(r.axes.size(), 2U);
}

TEST(LayoutTest, DefaultIsAnEmptyTensor) { EXPECT_EQ(to_string(Layout()), "(0):[]"); }

TEST(LayoutTest, MakeNormalizes) {
  const Layout layout = Layout::make({2, 6}, {region(0, 0, {{6, 1, 1}, {2, 6, 6}, {1, 0, 0}})});
  EXPECT_EQ(to_string(layout), "(2, 6):[0<-s0+0 (12:1<-1)]");
}

TEST(LayoutTest, RegionsMoveOutOfAnExpiringLayout) {
  Layout layout = Layout::make({3}, {region(0, 0, {{3, 1, 1}})});
  const Region* place = layout.regions().data();
  const std::vector<Region> moved = std::move(layout).regions();
  EXPECT_EQ(moved.data(), place);
}

TEST(LayoutTest, MakeRefusesWhatIsOutOfBounds) {
  expect_refused(
      {2, 3}, region(1, 0, {{6, 1, 1}}),
      "layout [2, 3]: region 0, 1<-s0+0 (6:1<-1), ends outside of a tensor of 6 elements");
  expect_refused({0}, region(0, 0, {}), "ends outside of a tensor of 0 elements");
  expect_refused({2}, region(-1, 0, {}), "has a negative number");
  expect_refused({2}, region(0, -1, {}), "has a negative number");
  expect_refused({2}, region(0, 0, {{0, 1, 1}}), "an extent below 1");
}

TEST(LayoutTest, MakeRefusesWhatOverflows) {
  expect_refused({4}, region(0, 0, {{3, kLargest, 1}}), "ends outside");
  expect_refused({4}, region(1, 0, {{2, kLargest, 1}}), "ends outside");
  expect_refused({4}, region(0, kLargest, {{2, 1, 1}}), "source offsets beyond 64 bits");
}

TEST(LayoutTest, MakeRefusesWhatIsNotNested) {
  expect_refused({9}, region(0, 0, {{2, 2, 9}, {3, 1, 1}}), "target strides that are not nested");
  expect_refused({9}, region(0, 0, {{2, 4, 0}}), "source strides that are not nested");
}

TEST(LayoutTest, MakeRefusesAPadWithASourceSide) {
  Region pad = region(0, 0, {{2, 1, 1}});
  pad.source = kPad;
  expect_refused({2}, pad, "is a pad, but has offsets or strides of a source");
}

TEST(LayoutTest, MakeRefusesAShapeThatIsNone) {
  EXPECT_THROW(Layout::make({-1}, {}), Error);
  EXPECT_THROW(Layout::make({kLargest, 2}, {}), Error);
}

}  // namespace
}  // namespace weightloom::testing
