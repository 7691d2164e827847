#include "weightloom/layout/relation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/coverage.h"

namespace weightloom::testing {
namespace {

std::vector<std::vector<Pair>> pairs_of_targets(const Relation& relation) {
  std::vector<std::vector<Pair>> pairs;
  for (const Layout& target : relation.targets) pairs.push_back(pairs_of(target.regions()));
  return pairs;
}

std::vector<std::vector<Pair>> pairs_of_drops(const Relation& relation) {
  std::vector<std::vector<Pair>> pairs;
  for (const auto& drops : relation.drops) pairs.push_back(pairs_of(drops));
  return pairs;
}

void expect_same(const Relation& a, const Relation& b) {
  EXPECT_EQ(a.sources, b.sources);
  ASSERT_EQ(a.targets.size(), b.targets.size());
  for (size_t i = 0; i < a.targets.size(); ++i) {
    EXPECT_EQ(a.targets[i].shape(), b.targets[i].shape());
  }
  EXPECT_EQ(pairs_of_targets(a), pairs_of_targets(b));
  EXPECT_EQ(pairs_of_drops(a), pairs_of_drops(b));
}

std::vector<Dense> gather_all(const Relation& relation, const std::vector<Dense>& sources) {
  std::vector<Dense> targets;
  for (const Layout& target : relation.targets) targets.push_back(gather(target, sources));
  return targets;
}

/// Rows of a dim cut as FSDP cuts them: equal chunks, the last shorter, some perhaps empty.
std::vector<Layout> chunks(const Layout& layout, int dim, int64_t ways) {
  const int64_t rows = layout.shape()[static_cast<size_t>(dim)];
  const int64_t size = (rows + ways - 1) / ways;
  std::vector<Layout> parts;
  for (int64_t i = 0; i < ways; ++i) {
    parts.push_back(slice(layout, dim, std::min(rows, i * size), std::min(rows, (i + 1) * size)));
  }
  return parts;
}

/// Chunks of chunks: each rank has one chunk of every group, as a packed projection is cut.
std::vector<Layout> strided_chunks(const Layout& layout, int dim, int64_t groups, int64_t ways) {
  std::vector<std::vector<Layout>> of_rank(static_cast<size_t>(ways));
  for (const Layout& group : chunks(layout, dim, groups)) {
    const std::vector<Layout> parts = chunks(group, dim, ways);
    for (size_t i = 0; i < parts.size(); ++i) of_rank[i].push_back(parts[i]);
  }
  std::vector<Layout> shards;
  for (const auto& parts : of_rank) shards.push_back(concat(parts, dim));
  return shards;
}

/// Shards of `layout` by one to three random cuts.
std::vector<Layout> random_shards(const Layout& layout, SeededDraw& draw) {
  std::vector<Layout> shards = {layout};
  for (int64_t cuts = 1 + draw(3); cuts > 0; --cuts) {
    const int dim = static_cast<int>(draw(layout.rank()));
    const int64_t groups = 1 + draw(3);
    const int64_t ways = 1 + draw(4);
    std::vector<Layout> finer;
    for (const Layout& shard : shards) {
      for (Layout& part : strided_chunks(shard, dim, groups, ways))
        finer.push_back(std::move(part));
    }
    shards = std::move(finer);
  }
  return shards;
}

/// A tensor as a runtime may hold it: perhaps de-interleaved, transposed, padded.
Layout random_runtime(const Shape& shape, SeededDraw& draw) {
  Layout layout = identity(0, shape);
  if (shape[0] % 2 == 0 && draw(2) == 0) layout = interleave(layout, 0, 2, false);
  const auto last = static_cast<int>(shape.size()) - 1;
  if (draw(2) == 0) layout = transpose(layout, 0, last);
  if (draw(2) == 0) layout = pad(layout, static_cast<int>(draw(layout.rank())), 0, 1 + draw(3), 5);
  return layout;
}

TEST(RelationTest, AnInverseReadsFromTheTargets) {
  const Layout columns = slice(identity(0, {2, 3}), 1, 1, 3);
  const Relation inverse = invert({{{2, 3}}, {columns}, {{}}});
  EXPECT_EQ(inverse.sources, (std::vector<Shape>{{2, 2}}));
  ASSERT_EQ(inverse.targets.size(), 1U);
  EXPECT_EQ(to_string(inverse.targets[0]), "(2, 3):[1<-s0+0 (2:3<-2, 2:1<-1)]");
}

TEST(RelationTest, PadsBecomeDropsAndDropsBecomePads) {
  const Layout padded = pad(identity(0, {3}), 0, 0, 2, 9);
  const Layout kept = slice(identity(1, {4}), 0, 0, 3);
  const std::vector<Region> dropped = {parse_layout("(4):[3<-pad(6)]").regions()[0]};
  const Relation relation{{{3}, {4}}, {padded, kept}, {{}, dropped}};
  const Relation inverse = invert(relation);
  EXPECT_EQ(to_string(inverse.targets[0]), "(3):[0<-s0+0 (3:1<-1)]");
  EXPECT_EQ(to_string(inverse.targets[1]), "(4):[0<-s1+0 (3:1<-1); 3<-pad(6)]");
  ASSERT_EQ(inverse.drops.size(), 2U);
  ASSERT_EQ(inverse.drops[0].size(), 1U);
  EXPECT_EQ(to_string(inverse.drops[0][0]), "3<-pad(9) (2:1)");
  EXPECT_TRUE(inverse.drops[1].empty());
  expect_same(invert(inverse), relation);
}

TEST(RelationTest, TheDocumentedExampleIsTrue) {
  const Layout loading = pad(identity(0, {2, 3}), 1, 0, 1, 0);
  EXPECT_EQ(to_string(loading), "(2, 4):[0<-s0+0 (2:4<-3, 3:1<-1); 3<-pad(0) (2:4)]");
  const Relation saving = invert({{{2, 3}}, {loading}, {{}}});
  EXPECT_EQ(to_string(saving.targets[0]), "(2, 3):[0<-s0+0 (2:3<-4, 3:1<-1)]");
  ASSERT_EQ(saving.drops[0].size(), 1U);
  EXPECT_EQ(to_string(saving.drops[0][0]), "3<-pad(0) (2:4)");
}

TEST(RelationTest, WhatNoTargetReadsShowsInCoverageOfTheInverse) {
  const Relation inverse = invert({{{4}}, {slice(identity(0, {4}), 0, 0, 3)}, {{}}});
  const auto fault = coverage_fault(inverse.targets[0]);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->offset, 3);
  EXPECT_EQ(fault->times, 0);
}

TEST(RelationTest, WhatTwoTargetsReadShowsInCoverageOfTheInverse) {
  const Relation inverse =
      invert({{{4}}, {identity(0, {4}), slice(identity(0, {4}), 0, 2, 4)}, {}});
  const auto fault = coverage_fault(inverse.targets[0]);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->offset, 2);
  EXPECT_EQ(fault->times, 2);
}

TEST(RelationTest, EmptyTensorsInvertToEmptyTensors) {
  const Relation relation{{{0, 3}, {2}}, {identity(0, {0, 3}), identity(1, {2})}, {{}, {}}};
  const Relation inverse = invert(relation);
  EXPECT_EQ(to_string(inverse.targets[0]), "(0, 3):[]");
  expect_same(invert(inverse), relation);
}

TEST(RelationTest, AnUnknownSourceIsRefused) {
  try {
    invert({{{2}}, {identity(1, {2})}, {}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_STREQ(error.what(), "invert: target 0 reads source 1, but there are 1 sources");
  }
}

TEST(RelationTest, MergingInvertsCutting) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 1500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    SeededDraw draw(seed);
    Shape shape;
    for (int64_t rank = 1 + draw(3); rank > 0; --rank) shape.push_back(1 + draw(8));
    const std::vector<Dense> whole = {counting(shape, 1000)};
    const Relation cut{{shape}, random_shards(random_runtime(shape, draw), draw), {{}}};
    const Relation merge = invert(cut);
    EXPECT_EQ(coverage_fault(merge.targets[0]), std::nullopt);
    EXPECT_EQ(gather(merge.targets[0], gather_all(cut, whole)), whole[0]);
    EXPECT_EQ(invariant_fault(merge.targets[0]), "");
    expect_same(invert(merge), cut);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RelationTest, ReshardingIsCuttingTheMerged) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    SeededDraw draw(seed);
    const Shape shape = {1 + draw(8), 1 + draw(8)};
    const std::vector<Dense> whole = {counting(shape, 1000)};
    const Relation cut{{shape}, random_shards(random_runtime(shape, draw), draw), {{}}};
    const std::vector<Dense> held = gather_all(cut, whole);
    SeededDraw cuts(seed + 1);
    SeededDraw same_cuts(seed + 1);
    const std::vector<Layout> resharded = random_shards(invert(cut).targets[0], cuts);
    const std::vector<Layout> direct = random_shards(identity(0, shape), same_cuts);
    for (size_t i = 0; i < direct.size(); ++i) {
      EXPECT_EQ(gather(resharded[i], held), gather(direct[i], whole));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weightloom::testing
