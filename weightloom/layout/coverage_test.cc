#include "weightloom/layout/coverage.h"

#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/operations.h"

namespace weightloom {

void PrintTo(const CoverageFault& fault, std::ostream* out) {
  *out << "element " << fault.offset << " covered " << fault.times << " times";
}

namespace testing {
namespace {

std::optional<CoverageFault> fault_of(const std::string& layout) {
  return coverage_fault(parse_layout(layout));
}

CoverageFault at(int64_t offset, int64_t times) { return {offset, times}; }

/// By counting every element.
std::optional<CoverageFault> slow_fault(const Layout& layout) {
  std::vector<int64_t> times(static_cast<size_t>(layout.size()), 0);
  for (const Pair& pair : pairs_of(layout.regions())) ++times[static_cast<size_t>(pair.target)];
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] != 1) return at(static_cast<int64_t>(i), times[i]);
  }
  return std::nullopt;
}

/// Column shards of [rows, columns], `shards` of them.
Layout column_shards(int64_t rows, int64_t columns, int64_t shards) {
  std::vector<Layout> parts;
  for (SourceId i = 0; i < shards; ++i) parts.push_back(identity(i, {rows, columns / shards}));
  return concat(parts, 1);
}

Layout with_regions(const Layout& layout, std::vector<Region> regions) {
  return Layout::make(layout.shape(), std::move(regions));
}

std::vector<Region> regions_of(const Layout& layout) {
  return {layout.regions().begin(), layout.regions().end()};
}

TEST(CoverageTest, WholeTensorsHaveNoFault) {
  EXPECT_EQ(coverage_fault(identity(0, {3, 7})), std::nullopt);
  EXPECT_EQ(coverage_fault(identity(0, {})), std::nullopt);
  EXPECT_EQ(coverage_fault(identity(0, {3, 0})), std::nullopt);
  EXPECT_EQ(coverage_fault(constant(1, {5})), std::nullopt);
}

TEST(CoverageTest, HolesBetweenRegionsAreFound) {
  EXPECT_EQ(fault_of("(7):[]"), at(0, 0));
  EXPECT_EQ(fault_of("(7):[1<-s0+0 (6:1<-1)]"), at(0, 0));
  EXPECT_EQ(fault_of("(7):[0<-s0+0 (3:1<-1); 4<-s0+0 (3:1<-1)]"), at(3, 0));
  EXPECT_EQ(fault_of("(7):[0<-s0+0 (6:1<-1)]"), at(6, 0));
}

TEST(CoverageTest, HolesInARegionAreFound) {
  EXPECT_EQ(fault_of("(9):[0<-s0+0 (5:2<-1)]"), at(1, 0));
  EXPECT_EQ(fault_of("(9):[0<-s0+0 (2:6<-3, 3:1<-1)]"), at(3, 0));
}

TEST(CoverageTest, OverlapsAreFoundWithTheirNumber) {
  EXPECT_EQ(fault_of("(7):[0<-s0+0 (4:1<-1); 3<-s0+0 (4:1<-1)]"), at(3, 2));
  EXPECT_EQ(fault_of("(1):[0<-s0+0; 0<-s1+0; 0<-pad(0)]"), at(0, 3));
}

TEST(CoverageTest, AHoleAndAnOverlapDoNotCancel) {
  // Seven elements in all: 2 is there twice, 5 never.
  EXPECT_EQ(fault_of("(7):[0<-s0+0 (5:1<-1); 2<-s0+0; 6<-s0+0]"), at(2, 2));
  // Of two interleaved columns the second is written twice, the third never.
  EXPECT_EQ(fault_of("(2, 3):[0<-s0+0 (2:3<-1); 1<-s1+0 (2:3<-1); 1<-s2+0 (2:3<-1)]"), at(1, 2));
}

TEST(CoverageTest, InterleavedRegionsThatFitHaveNoFault) {
  EXPECT_EQ(fault_of("(2, 3):[0<-s0+0 (2:3<-1); 1<-s1+0 (2:3<-2, 2:1<-1)]"), std::nullopt);
}

TEST(CoverageTest, OutOfBoundsIsAnErrorOfUse) {
  const Layout layout = Layout::unchecked({3}, regions_of(identity(0, {4})));
  EXPECT_THROW(coverage_fault(layout), Error);
}

TEST(CoverageTest, ReadersCountOnTheirSourceSide) {
  const Layout head = slice(identity(0, {4, 6}), 1, 0, 2);
  const Layout tail = slice(identity(0, {4, 6}), 1, 2, 6);
  std::vector<Region> readers = regions_of(head);
  EXPECT_EQ(coverage_fault(24, readers), at(2, 0));
  for (const Region& region : tail.regions()) readers.push_back(region);
  EXPECT_EQ(coverage_fault(24, readers), std::nullopt);
  EXPECT_EQ(coverage_fault(25, readers), at(24, 0));
  readers.push_back(parse_layout("(1):[0<-s0+9]").regions()[0]);
  EXPECT_EQ(coverage_fault(24, readers), at(9, 2));
}

TEST(CoverageTest, ColumnShardsOfALargeTensorAreDecidedWithoutCounting) {
  const Layout shards = column_shards(int64_t{1} << 20, int64_t{1} << 16, 64);  // 2^36 elements
  EXPECT_EQ(coverage_fault(shards), std::nullopt);
  std::vector<Region> regions = regions_of(shards);
  regions[40].target_offset += 1;
  EXPECT_EQ(coverage_fault(with_regions(shards, regions)), at(40 * 1024, 0));
  regions = regions_of(shards);
  regions[40].axes[0].extent -= 1;  // one row of a shard is missing
  EXPECT_EQ(coverage_fault(with_regions(shards, regions)),
            at(((int64_t{1} << 20) - 1) * 65536 + 40 * 1024, 0));
}

TEST(CoverageTest, RowsOfLargeTensorsThatAlternateAreDecidedWithoutCounting) {
  const std::vector<Layout> pair = {identity(0, {100'000, 50'000}), identity(1, {100'000, 50'000})};
  const Layout alternating = stack(pair, 1);  // 10^10 elements
  EXPECT_EQ(coverage_fault(alternating), std::nullopt);
  std::vector<Region> regions = regions_of(alternating);
  regions[1].target_offset -= 1;
  EXPECT_EQ(coverage_fault(with_regions(alternating, regions)), at(49'999, 2));
}

TEST(CoverageTest, AGridOfUnevenShardsIsDecidedWithoutCounting) {
  // 40 column shards, each cut into rows at places of its own.
  constexpr int64_t kRows = 1 << 20;
  std::vector<Layout> columns;
  for (SourceId i = 0; i < 40; ++i) {
    const int64_t cut = 1000 * (i + 1) + i;
    const std::vector<Layout> rows = {identity(2 * i, {cut, 257}),
                                      identity(2 * i + 1, {kRows - cut, 257})};
    columns.push_back(concat(rows, 0));
  }
  const Layout grid = concat(columns, 1);
  ASSERT_EQ(grid.regions().size(), 80U);
  EXPECT_EQ(coverage_fault(grid), std::nullopt);
  std::vector<Region> regions = regions_of(grid);
  regions.pop_back();  // rows 40039… of the last column shard
  EXPECT_EQ(coverage_fault(with_regions(grid, regions)), at(40'039 * 40 * 257 + 39 * 257, 0));
}

TEST(CoverageTest, StridesThatDoNotDivideAreCounted) {
  // Steps of 3 against steps of 2: 0 3 6 9 and 0 2 4 6 8 10.
  EXPECT_EQ(fault_of("(11):[0<-s0+0 (4:3<-1); 1<-s1+0 (5:2<-1)]"), at(2, 0));
  EXPECT_EQ(fault_of("(11):[0<-s0+0 (4:3<-1); 1<-s1+0 (5:2<-1); 2<-s2+0 (5:2<-1)]"), at(3, 2));
  EXPECT_EQ(fault_of("(6):[0<-s0+0 (2:3<-1); 1<-s1+0 (2:1<-1); 4<-s1+0 (2:1<-1)]"), std::nullopt);
}

TEST(CoverageTest, CountingGoesOnPastOneTile) {
  // Two of three elements step by 3; the last four elements that they leave step by 4 and by 2.
  const std::string threes =
      "(25165824):[0<-s0+0 (8388608:3<-1); 1<-s1+0 (8388606:3<-2, 2:1<-1); "
      "25165819<-s2+0 (2:4<-1); ";
  EXPECT_EQ(fault_of(threes + "25165820<-s2+2 (2:2<-1)]"), std::nullopt);
  EXPECT_EQ(fault_of(threes + "25165819<-s2+2 (2:2<-1)]"), at(25'165'819, 2));
}

/// One change that may or may not break coverage.
std::vector<Region> mutated(std::vector<Region> regions, SeededDraw& draw) {
  const auto i = static_cast<size_t>(draw(std::ssize(regions)));
  const auto j = static_cast<size_t>(draw(std::ssize(regions)));
  switch (draw(6)) {
    case 0:
      regions[i].target_offset += draw(5) - 2;
      break;
    case 1:
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 2:
      regions.push_back(regions[i]);
      break;
    case 3:
      regions[i].target_offset = regions[j].target_offset;
      break;
    case 4:
      if (!regions[i].axes.empty()) regions[i].axes[0].target_stride += draw(3) - 1;
      break;
    default:
      std::swap(regions[i].target_offset, regions[j].target_offset);
  }
  return regions;
}

TEST(CoverageTest, MutationsAreJudgedAsCountingJudgesThem) {
  std::map<bool, int> seen;
  for (uint64_t seed = test_seed(); seed < test_seed() + 6000; ++seed) {
    SeededDraw draw(seed);
    Chain<SeededDraw> chain(draw);
    for (int step = 0; step < 7; ++step) chain.step();
    std::vector<Region> regions = regions_of(chain.layout());
    if (regions.empty()) continue;
    for (int64_t changes = 1 + draw(2); changes > 0 && !regions.empty(); --changes) {
      regions = mutated(std::move(regions), draw);
    }
    std::optional<Layout> layout;
    try {
      layout = Layout::make(chain.layout().shape(), std::move(regions));
    } catch (const Error&) {
      continue;  // out of bounds or not nested: layout_test.cc
    }
    const auto expected = slow_fault(*layout);
    ASSERT_EQ(coverage_fault(*layout), expected)
        << "WEIGHTLOOM_SEED=" << seed << ": " << to_string(*layout);
    ++seen[expected.has_value()];
  }
  EXPECT_GT(seen[true], 500);
  EXPECT_GT(seen[false], 100);
}

TEST(CoverageTest, RandomRegionsAreJudgedAsCountingJudgesThem) {
  SeededDraw draw(test_seed());
  for (int i = 0; i < 20'000; ++i) {
    const int64_t size = 1 + draw(24);
    std::vector<Region> regions;
    for (int64_t more = draw(6); more > 0; --more) {
      Region region;
      region.target_offset = draw(size);
      int64_t span = 0;
      for (int64_t rank = draw(3); rank > 0; --rank) {
        const Axis axis{2 + draw(3), span + 1 + draw(3), 0};
        span += (axis.extent - 1) * axis.target_stride;
        region.axes.push_back(axis);
      }
      if (region.target_offset + span < size) regions.push_back(region);
    }
    const Layout layout = Layout::make({size}, std::move(regions));
    ASSERT_EQ(coverage_fault(layout), slow_fault(layout))
        << "WEIGHTLOOM_SEED=" << test_seed() << ": " << to_string(layout);
  }
}

}  // namespace
}  // namespace testing
}  // namespace weightloom
