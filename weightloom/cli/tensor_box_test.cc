#include "weightloom/cli/tensor_box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

using ::testing::ElementsAre;

Region region_of(int64_t source_offset, std::vector<Axis> axes) {
  Region region;
  region.source = 0;
  region.source_offset = source_offset;
  for (const Axis& axis : axes) region.axes.push_back(axis);
  return region;
}

Box source_box(const Region& region, DType dtype, const Shape& shape, int64_t point_bytes = 1) {
  return box_of(region, RegionSide::source, point_bytes, dtype, shape);
}

TEST(BoxOf, ARunOfWholeRowsIsTheseRows) {
  // U8 [4, 3]: bytes 3..9 are rows 1 and 2.
  const Box box = source_box(region_of(3, {{6, 1, 1}}), DType::U8, {4, 3});
  EXPECT_THAT(box.dims, ElementsAre(Interval{1, 3}, Interval{0, 3}));
  EXPECT_EQ(box.bytes, 6);
  EXPECT_FALSE(box.is_partial());
}

TEST(BoxOf, AStripeThroughAllRowsIsOneIntervalOfTheLastDim) {
  // BF16 [3, 4], columns 2 and 3: bytes 4..8 of each row of 8.
  const Box box = source_box(region_of(4, {{3, 4, 8}, {4, 1, 1}}), DType::BF16, {3, 4});
  EXPECT_THAT(box.dims, ElementsAre(Interval{0, 3}, Interval{4, 8}));
  EXPECT_FALSE(box.is_partial());
  EXPECT_EQ(slice_text(box, DType::BF16, {3, 4}), "[:, 2:4]");
}

TEST(BoxOf, EverySecondRowIsMeantInPart) {
  const Box box = source_box(region_of(0, {{2, 3, 6}, {3, 1, 1}}), DType::U8, {4, 3});
  EXPECT_THAT(box.dims, ElementsAre(Interval{0, 3}, Interval{0, 3}));
  EXPECT_TRUE(box.is_partial());
  EXPECT_EQ(box.bytes, 6);
}

TEST(BoxOf, ACastRegionCountsElements) {
  // F32 [2, 3], row 1: its points are elements of four bytes.
  const Box box = source_box(region_of(12, {{3, 2, 4}}), DType::F32, {2, 3}, 4);
  EXPECT_THAT(box.dims, ElementsAre(Interval{1, 2}, Interval{0, 12}));
  EXPECT_FALSE(box.is_partial());
}

TEST(BoxOf, AScalarIsARowOfItsBytes) {
  const Box box = source_box(region_of(0, {{8, 1, 1}}), DType::I64, {});
  EXPECT_THAT(box.dims, ElementsAre(Interval{0, 8}));
  EXPECT_EQ(slice_text(box, DType::I64, {}), "[]");
}

TEST(JoinedBoxes, NeighboursBecomeOneAndStripesThatFillABoxAreThatBox) {
  const std::vector<Box> rows = {{{{2, 3}, {0, 3}}, 3}, {{{0, 2}, {0, 3}}, 6}};
  EXPECT_THAT(joined(rows, 9), ElementsAre(Box{{{0, 3}, {0, 3}}, 9}));
  const std::vector<Box> stripes = {{{{0, 3}, {0, 3}}, 6}, {{{1, 4}, {0, 3}}, 6}};
  EXPECT_THAT(joined(stripes, 9), ElementsAre(Box{{{0, 4}, {0, 3}}, 12}));
}

TEST(JoinedBoxes, TooManyBecomeTheirHull) {
  const std::vector<Box> apart = {{{{0, 1}}, 1}, {{{2, 3}}, 1}, {{{4, 5}}, 1}};
  EXPECT_THAT(joined(apart, 3), ::testing::SizeIs(3));
  EXPECT_THAT(joined(apart, 2), ElementsAre(Box{{{0, 5}}, 3}));
}

TEST(PatchOf, InnerDimsNestFromTopToBottom) {
  // U8 [2, 4, 5]: row 1; of dim 1 the third quarter; of dim 2 its first fifth.
  const Patch patch = patch_of({{{1, 2}, {2, 3}, {0, 1}}, 1}, DType::U8, {2, 4, 5});
  EXPECT_DOUBLE_EQ(patch.left, 0.5);
  EXPECT_DOUBLE_EQ(patch.right, 1);
  EXPECT_DOUBLE_EQ(patch.top, 0.5);
  EXPECT_DOUBLE_EQ(patch.bottom, 0.55);
}

}  // namespace
}  // namespace weightloom::cli
