#include "weightloom/layout/source_box.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/layout/operations.h"

namespace weightloom {
namespace {

using testing::Index;
using testing::unravel;

/// All pairs (target, source) of a region.
std::set<std::pair<int64_t, int64_t>> pairs_of(const Region& region) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  std::vector<int64_t> count(region.axes.size(), 0);
  while (true) {
    int64_t to = region.target_offset;
    int64_t from = region.source_offset;
    for (size_t i = 0; i < count.size(); ++i) {
      to += count[i] * region.axes[i].target_stride;
      from += count[i] * region.axes[i].source_stride;
    }
    pairs.emplace(to, from);
    size_t axis = count.size();
    while (axis > 0 && ++count[axis - 1] == region.axes[axis - 1].extent) count[--axis] = 0;
    if (axis == 0) return pairs;
  }
}

/// The laws of both functions, element by element.
void expect_boxes(const Region& region, const Shape& source) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const BoxedRegion& boxed : source_boxes(region, source)) {
    Box hull(source.size(), Interval{1 << 30, 0});
    Shape sizes;
    for (const Interval& interval : boxed.box) sizes.push_back(interval.size());
    std::map<int64_t, int64_t> in_box;  // target -> element of the box
    for (const auto& [to, at] : pairs_of(within_box(boxed.region, source, boxed.box))) {
      in_box.emplace(to, at);
    }
    for (const auto& [to, from] : pairs_of(boxed.region)) {
      EXPECT_TRUE(seen.emplace(to, from).second);
      const Index index = unravel(from, source);
      Index inside;
      for (size_t d = 0; d < source.size(); ++d) {
        hull[d] = {std::min(hull[d].begin, index[d]), std::max(hull[d].end, index[d] + 1)};
        inside.push_back(index[d] - boxed.box[d].begin);
      }
      ASSERT_TRUE(in_box.contains(to));
      EXPECT_EQ(in_box[to], static_cast<int64_t>(testing::ravel(inside, sizes)));
    }
    EXPECT_EQ(hull, boxed.box);
  }
  EXPECT_EQ(seen, pairs_of(region));
}

TEST(SourceBox, ARunFromTheMiddleOfARowToTheMiddleOfAnotherIsHeadBodyAndTail) {
  const auto boxes = source_boxes({0, 0, 5, 0, {{18, 1, 1}}}, {4, 7});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].box, (Box{{0, 1}, {5, 7}}));
  EXPECT_EQ(boxes[1].box, (Box{{1, 3}, {0, 7}}));
  EXPECT_EQ(boxes[2].box, (Box{{3, 4}, {0, 2}}));
}

TEST(SourceBox, ColumnsOfAMatrixAreOneBox) {
  const Layout columns = slice(identity(0, {6, 8}), 1, 2, 5);
  ASSERT_EQ(columns.regions().size(), 1u);
  const auto boxes = source_boxes(columns.regions()[0], {6, 8});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].box, (Box{{0, 6}, {2, 5}}));
  EXPECT_EQ(volume(boxes[0].box), 18);
}

TEST(SourceBox, AStackOfMatricesHasThreeDims) {
  const Layout part = slice(slice(identity(0, {3, 4, 5}), 0, 1, 3), 2, 1, 4);
  for (const Region& region : part.regions()) expect_boxes(region, {3, 4, 5});
}

TEST(SourceBox, DimsOfOneElementHoldNoSteps) {
  for (const Shape& shape : {Shape{1, 6}, Shape{6, 1}, Shape{2, 1, 3}, Shape{1, 1}, Shape{5}}) {
    const Layout whole = identity(0, shape);
    expect_boxes(whole.regions()[0], shape);
  }
}

TEST(SourceBox, BoxesOfRandomChainsAreTightAndHoldEachPairOnce) {
  for (uint64_t i = 0; i < 300; ++i) {
    testing::SeededDraw draw(testing::test_seed() + i);
    testing::Chain<testing::SeededDraw> chain(draw);
    for (int step = 0; step < 6; ++step) chain.step();
    SCOPED_TRACE(::testing::Message() << "seed + " << i << ": " << chain.story());
    for (const Region& region : chain.layout().regions()) {
      if (region.is_pad()) continue;
      expect_boxes(region, chain.sources()[static_cast<size_t>(region.source)].shape);
    }
  }
}

}  // namespace
}  // namespace weightloom
