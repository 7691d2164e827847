#include "weightloom/sharding/scale_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/checked.h"
#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;

/// The elements of the whole dim that a part holds, one after another; -1 for padding.
std::vector<int64_t> elements_of(const Segments& segments) {
  std::vector<int64_t> elements;
  for (const Segment& segment : segments) {
    for (int64_t i = 0; i < segment.size; ++i) {
      elements.push_back(segment.is_pad ? -1 : segment.begin + i);
    }
  }
  return elements;
}

/// True if on every rank value i of each dim finds the scale of its block at ⌊i/block⌋.
bool finds_scales(const Sharding& codes, const Sharding& scales, const MeshSet& meshes,
                  const Shape& shape, const std::vector<int64_t>& block) {
  Shape grid;
  for (size_t d = 0; d < shape.size(); ++d) {
    grid.push_back(block[d] == 0 ? 1 : ceil_div(shape[d], block[d]));
  }
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    const auto mine = local_part(codes, meshes, shape, rank);
    const auto beside = local_part(scales, meshes, grid, rank);
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto values = elements_of((*mine)[d]);
      const auto found = elements_of((*beside)[d]);
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] < 0) continue;
        const size_t place = block[d] == 0 ? 0 : i / static_cast<size_t>(block[d]);
        if (place >= found.size()) return false;
        if (found[place] != (block[d] == 0 ? 0 : values[i] / block[d])) return false;
      }
    }
  }
  return true;
}

Sharding cut(const std::string& axis, int dim, Cut rule = {}) {
  return {"", {CutStep{axis, dim, std::move(rule)}}};
}

TEST(ScaleShardingTest, CutsAtBlocksAreTheSameCutsOfTheGrid) {
  const MeshSet mesh = MeshSet::parse("tp=4");
  const std::vector<int64_t> block{128, 128};
  const ScaleSharding made = sharding_of_scales(cut("tp", 1), mesh, {256, 512}, block);
  EXPECT_EQ(made.refusal, "");
  EXPECT_EQ(made.sharding, cut("tp", 1));
}

TEST(ScaleShardingTest, TwoRanksInsideABlockHoldTheSameScale) {
  const MeshSet mesh = MeshSet::parse("tp=4");
  const std::vector<int64_t> block{128, 128};
  const ScaleSharding made = sharding_of_scales(cut("tp", 1), mesh, {256, 256}, block);
  EXPECT_EQ(made.refusal, "");
  for (const auto& [rank, begin] : {std::pair(0, 0), {1, 0}, {2, 1}, {3, 1}}) {
    const auto part = local_part(made.sharding, mesh, {2, 2}, rank);
    EXPECT_EQ((*part)[1], (Segments{{begin, 1}})) << rank;
    EXPECT_EQ((*part)[0], (Segments{{0, 2}}));
  }
}

TEST(ScaleShardingTest, APartThatBeginsInsideABlockAndLeavesItIsRefusedWithTheNumbers) {
  const MeshSet mesh = MeshSet::parse("tp=2");
  const std::vector<int64_t> block{128, 128};
  const ScaleSharding made = sharding_of_scales(cut("tp", 0), mesh, {384, 128}, block);
  EXPECT_THAT(made.refusal, HasSubstr("dim 0 is cut into [192, 384) of 384"));
  EXPECT_THAT(made.refusal, HasSubstr("128"));
}

TEST(ScaleShardingTest, AScaleForAllOfADimIsOnEveryRank) {
  const MeshSet mesh = MeshSet::parse("tp=3");
  const std::vector<int64_t> block{1, 0};
  const ScaleSharding made = sharding_of_scales(cut("tp", 1), mesh, {5, 7}, block);
  EXPECT_EQ(made.sharding, Sharding());
  EXPECT_EQ(sharding_of_scales(cut("tp", 0), mesh, {5, 7}, block).sharding, cut("tp", 0));
}

TEST(ScaleShardingTest, StripesAreCutBlockByBlock) {
  const MeshSet mesh = MeshSet::parse("tp=2");
  Cut stripes;
  stripes.stripes = 2;
  const std::vector<int64_t> block{4};
  const ScaleSharding made = sharding_of_scales(cut("tp", 0, stripes), mesh, {16}, block);
  EXPECT_EQ(made.refusal, "");
  EXPECT_TRUE(finds_scales(cut("tp", 0, stripes), made.sharding, mesh, {16}, block));
  EXPECT_NE(sharding_of_scales(cut("tp", 0, stripes), mesh, {24}, block).refusal, "");
}

TEST(ScaleShardingTest, AShortLastBlockIsFollowedByNoOther) {
  const MeshSet mesh = MeshSet::parse("tp=2");
  const std::vector<int64_t> block{4};
  Cut table{CutRule::table};
  table.table = {{{8, 10}, {0, 4}}, {{4, 8}}};  // row 2 of the first part is row 0, of block 0
  EXPECT_THAT(sharding_of_scales(cut("tp", 0, table), mesh, {10}, block).refusal,
              HasSubstr("[8, 10) of 10"));
  table.table = {{{0, 4}, {8, 10}}, {{4, 8}}};
  const ScaleSharding made = sharding_of_scales(cut("tp", 0, table), mesh, {10}, block);
  EXPECT_EQ(made.refusal, "");
  EXPECT_TRUE(finds_scales(cut("tp", 0, table), made.sharding, mesh, {10}, block));
}

TEST(ScaleShardingTest, WhatIsPaddedToAtLeastASizeIsCutAsItThenIs) {
  const MeshSet mesh = MeshSet::parse("tp=3");
  const std::vector<int64_t> block{4};
  const auto padded = [](int64_t multiple, int64_t least) {
    return Sharding{"", {PadStep{0, multiple, 1, least}, CutStep{"tp", 0}}};
  };
  // 8 rows become 16, not 12: parts of 6.
  EXPECT_THAT(sharding_of_scales(padded(8, 12), mesh, {8}, block).refusal,
              HasSubstr("[6, 12) of 16"));
  const ScaleSharding made = sharding_of_scales(padded(4, 10), mesh, {8}, block);
  EXPECT_EQ(made.refusal, "");
  EXPECT_TRUE(finds_scales(padded(4, 10), made.sharding, mesh, {8}, block));
}

TEST(ScaleShardingTest, EveryRankFindsTheScalesOfItsValuesOrTheCutIsRefused) {
  const MeshSet mesh = MeshSet::parse("a=3,b=2");
  int64_t said = 0;
  int64_t refused = 0;
  for (int i = 0; i < 4000; ++i) {
    testing::SeededDraw draw(testing::test_seed() + static_cast<uint64_t>(i));
    const Shape shape{1 + draw(24), 1 + draw(12)};
    const std::vector<int64_t> block{draw(5), draw(4)};
    Sharding sharding;
    for (const char* axis : {"a", "b"}) {
      if (draw(3) == 0) continue;
      CutStep step{axis, static_cast<int>(draw(2))};
      step.cut.stripes = draw(4) == 0 ? 2 : 1;
      if (draw(3) == 0) step.cut.rule = CutRule::balanced;
      if (draw(6) == 0) {
        const bool is_even =
            sharding.steps.empty() && shape[static_cast<size_t>(step.dim)] % 2 == 0;
        const int64_t groups = is_even ? 1 + draw(2) : 1;
        sharding.steps.push_back(PadStep{step.dim, 1 + draw(6), groups, draw(30)});
      }
      sharding.steps.push_back(step);
    }
    const ScaleSharding made = sharding_of_scales(sharding, mesh, shape, block);
    ++(made.refusal.empty() ? said : refused);
    if (!made.refusal.empty()) continue;
    EXPECT_TRUE(finds_scales(sharding, made.sharding, mesh, shape, block)) << "seed + " << i;
  }
  EXPECT_GT(said, 1000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weightloom
