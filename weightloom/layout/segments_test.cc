#include "weightloom/layout/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/operations.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;

TEST(SegmentsTest, TakingFollowsThePartsOwnOrder) {
  const Segments part = {{10, 4, false}, {0, 2, true}, {2, 3, false}};
  EXPECT_EQ(length(part), 9);
  const std::vector<Interval> wanted = {{7, 9}, {1, 5}};
  EXPECT_THAT(take(part, wanted),
              ElementsAre(Segment{3, 2, false}, Segment{11, 3, false}, Segment{0, 1, true}));
}

TEST(SegmentsTest, NeighboursThatGoOnAreJoined) {
  const std::vector<Interval> wanted = {{0, 2}, {2, 5}, {7, 8}};
  EXPECT_THAT(take(whole_dim(8), wanted), ElementsAre(Segment{0, 5, false}, Segment{7, 1, false}));
  EXPECT_EQ(whole_dim(0), Segments{});
}

/// Rows of a dense array, gathered one by one; pads are 0 there, -1 in gather().
Dense rows_of(const Dense& array, size_t dim, const Segments& segments) {
  std::vector<int64_t> rows;
  for (const Segment& segment : segments) {
    for (int64_t i = 0; i < segment.size; ++i) {
      rows.push_back(segment.is_pad ? -1 : segment.begin + i);
    }
  }
  Shape shape = array.shape;
  shape[dim] = std::ssize(rows);
  return built(shape, [&](Index index) -> int64_t {
    index[dim] = rows[static_cast<size_t>(index[dim])];
    return index[dim] < 0 ? 0 : at(array, index);
  });
}

TEST(SegmentsTest, SelectingEqualsGatheringRows) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 2000; ++seed) {
    SeededDraw draw(seed);
    Chain<SeededDraw> chain(draw);
    for (int step = 0; step < 3; ++step) chain.step();
    if (chain.layout().rank() == 0) continue;
    const auto dim = static_cast<size_t>(draw(chain.layout().rank()));
    const int64_t rows = chain.layout().shape()[dim];
    Segments segments;
    for (int64_t count = draw(4); count > 0; --count) {
      const int64_t begin = rows == 0 ? 0 : draw(rows);
      const int64_t size = rows == 0 ? 0 : 1 + draw(rows - begin);
      append_segment(segments,
                     draw(4) == 0 ? Segment{0, 1 + draw(3), true} : Segment{begin, size, false});
    }
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const Layout selected = select(chain.layout(), static_cast<int>(dim), segments);
    ASSERT_EQ(gather(selected, chain.sources()), rows_of(chain.dense(), dim, segments));
    ASSERT_EQ(invariant_fault(selected), "");
  }
}

}  // namespace
}  // namespace weightloom::testing
