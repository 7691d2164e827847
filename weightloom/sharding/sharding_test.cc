#include "weightloom/sharding/sharding.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/layout/chain_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<SourceId> one_source_per_rank(int64_t ranks) {
  std::vector<SourceId> sources;
  for (int64_t rank = 0; rank < ranks; ++rank) sources.push_back(static_cast<SourceId>(rank));
  return sources;
}

TEST(ShardingTest, StepsActOnWhatIsLeft) {
  const MeshSet meshes = MeshSet::parse("fsdp=2,tp=2");
  const Sharding sharding{.steps = {CutStep{"tp", 0}, CutStep{"fsdp", 0}}};
  // 10 rows: tp cuts 5 and 5, fsdp cuts 3 and 2 of each; rank = fsdp * 2 + tp.
  EXPECT_THAT(*local_part(sharding, meshes, {10, 2}, 0),
              ElementsAre(ElementsAre(Segment{0, 3, false}), ElementsAre(Segment{0, 2, false})));
  EXPECT_THAT(local_part(sharding, meshes, {10, 2}, 1)->front(), ElementsAre(Segment{5, 3, false}));
  EXPECT_THAT(local_part(sharding, meshes, {10, 2}, 2)->front(), ElementsAre(Segment{3, 2, false}));
  EXPECT_EQ(local_shape(*local_part(sharding, meshes, {10, 2}, 3)), (Shape{2, 2}));
}

TEST(ShardingTest, PaddingHasAScope) {
  const MeshSet meshes = MeshSet::parse("ep=2");
  // Each of two keys of 3 rows is padded to 4, then cut: each rank has one key with its pad.
  const Sharding per_key{
      .steps = {PadStep{.dim = 0, .multiple = 4, .groups = 2}, CutStep{"ep", 0}}};
  EXPECT_THAT(local_part(per_key, meshes, {6}, 1)->front(),
              ElementsAre(Segment{3, 3, false}, Segment{0, 1, true}));
  // The tail of the whole: the second rank has all of the padding.
  const Sharding tail{.steps = {PadStep{.dim = 0, .multiple = 8}, CutStep{"ep", 0}}};
  EXPECT_THAT(local_part(tail, meshes, {6}, 1)->front(),
              ElementsAre(Segment{4, 2, false}, Segment{0, 2, true}));
  // Each part at its tail.
  const Sharding per_cut{.steps = {CutStep{"ep", 0}, PadStep{.dim = 0, .multiple = 4}}};
  EXPECT_THAT(local_part(per_cut, meshes, {6}, 0)->front(),
              ElementsAre(Segment{0, 3, false}, Segment{0, 1, true}));
}

TEST(ShardingTest, NeighboursMayHoldCopies) {
  const MeshSet meshes = MeshSet::parse("tp=4");
  const Sharding heads{.steps = {CutStep{.axis = "tp", .dim = 0, .copies = 2}}};
  EXPECT_THAT(local_part(heads, meshes, {6}, 1)->front(), ElementsAre(Segment{0, 3, false}));
  EXPECT_THAT(local_part(heads, meshes, {6}, 2)->front(), ElementsAre(Segment{3, 3, false}));
  EXPECT_THAT(owners(heads, meshes), ElementsAre(0, 2));
  EXPECT_EQ(owner_of(heads, meshes, 3), 2);
}

TEST(ShardingTest, AxesThatNoStepNamesHoldReplicas) {
  const MeshSet meshes = MeshSet::parse("dp=2,tp=2");
  EXPECT_THAT(owners({.steps = {CutStep{"tp", 0}}}, meshes), ElementsAre(0, 1));
  EXPECT_THAT(owners({.steps = {CutStep{"dp", 0}}}, meshes), ElementsAre(0, 2));
  EXPECT_THAT(owners({}, meshes), ElementsAre(0));
}

TEST(ShardingTest, AStageHasTheTensorAlone) {
  const MeshSet meshes = MeshSet::parse("pp=3,tp=2");
  const Sharding sharding{.steps = {StageStep{"pp", {1}}, CutStep{"tp", 0}}};
  EXPECT_FALSE(local_part(sharding, meshes, {4}, 0));
  EXPECT_TRUE(local_part(sharding, meshes, {4}, 3));
  EXPECT_THAT(gather(merged(sharding, meshes, {4}, one_source_per_rank(6)),
                     std::vector<Dense>{{}, {}, {{2}, {10, 11}}, {{2}, {12, 13}}, {}, {}})
                  .values,
              ElementsAre(10, 11, 12, 13));
}

TEST(ShardingTest, ARowInSeveralSlotsIsTakenFromTheFirst) {
  const MeshSet meshes = MeshSet::parse("ep=2");
  // Three experts in four slots: 0 and 1 on rank 0, 0 and 2 on rank 1.
  const Sharding slots{
      .steps = {CutStep{"ep", 0, {.rule = CutRule::table, .table = {{{0, 2}}, {{0, 1}, {2, 3}}}}}}};
  EXPECT_THAT(local_part(slots, meshes, {3}, 1)->front(),
              ElementsAre(Segment{0, 1, false}, Segment{2, 1, false}));
  EXPECT_THAT(gather(merged(slots, meshes, {3}, one_source_per_rank(2)),
                     std::vector<Dense>{{{2}, {5, 6}}, {{2}, {55, 7}}})
                  .values,
              ElementsAre(5, 6, 7));
}

TEST(ShardingTest, PartsThatDoNotMakeUpTheTensorAreRefused) {
  const MeshSet meshes = MeshSet::parse("ep=2");
  const Sharding hole{
      .steps = {CutStep{"ep", 0, {.rule = CutRule::table, .table = {{{0, 1}}, {{2, 3}}}}}}};
  const auto refusal = refusal_of([&] { merged(hole, meshes, {3, 2}, one_source_per_rank(2)); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::checkpoint);
  EXPECT_THAT(refusal->what(), HasSubstr("a tensor [3, 2]: element [1, 0] is held 0 times"));
}

TEST(ShardingTest, WhatIsNotThereIsRefusedByName) {
  const MeshSet meshes = MeshSet::parse("tp=2");
  const auto message = [&](const Sharding& sharding) {
    const auto refusal = refusal_of([&] { local_part(sharding, meshes, {4}, 0); });
    return refusal ? std::string(refusal->what()) : "";
  };
  EXPECT_THAT(message({.steps = {CutStep{"ep", 0}}}), HasSubstr("no axis 'ep' in the mesh 'tp=2'"));
  EXPECT_THAT(message({.steps = {CutStep{"tp", 1}}}), HasSubstr("dim 1 of a tensor of 1 dims"));
  EXPECT_THAT(message({.mesh = "expert"}), HasSubstr("no mesh called 'expert'"));
  EXPECT_THAT(message({.steps = {StageStep{"tp", {2}}}}), HasSubstr("no coordinate 2"));
  EXPECT_THAT(message({.steps = {CutStep{.axis = "tp", .dim = 0, .copies = 3}}}),
              HasSubstr("does not divide into groups of 3"));
}

/// A dim as a list of the elements that a rank holds, -1 for a pad: what segments say in short.
using Rows = std::vector<int64_t>;

/// One random step, and the same step on lists of rows.
class RandomSharding {
 public:
  RandomSharding(SeededDraw& draw, const MeshSet& meshes, const Shape& shape)
      : draw_(draw), mesh_(meshes.first()), shape_(shape) {}

  Sharding make() {
    Sharding sharding;
    std::vector<size_t> axes;
    for (size_t i = 0; i < mesh_.axes().size(); ++i) axes.push_back(i);
    for (size_t i = axes.size(); i > 1; --i) {
      std::swap(axes[i - 1], axes[static_cast<size_t>(draw_(static_cast<int64_t>(i)))]);
    }
    for (const size_t axis : axes) {
      const int dim = static_cast<int>(draw_(std::ssize(shape_)));
      if (draw_(5) == 0) sharding.steps.push_back(PadStep{dim, 1 + draw_(4)});
      if (draw_(4) == 0) continue;  // replicas
      CutStep step{mesh_.axes()[axis].name, dim};
      if (draw_(3) == 0) step.cut.rule = CutRule::balanced;
      if (draw_(3) == 0) step.cut.stripes = 1 + draw_(3);
      sharding.steps.push_back(step);
    }
    return sharding;
  }

 private:
  SeededDraw& draw_;
  const Mesh& mesh_;
  const Shape& shape_;
};

/// Which of `n` rows part `part` of `parts` keeps, one by one: a row's stripe, then its part.
bool keeps(const Cut& cut, int64_t n, int64_t parts, int64_t part, int64_t row) {
  const int64_t stripe = n == 0 ? 1 : (n + cut.stripes - 1) / cut.stripes;
  const int64_t first = row / stripe * stripe;
  const int64_t rows = std::min(stripe, n - first);
  const int64_t at = row - first;
  if (cut.rule == CutRule::balanced) {
    int64_t begin = 0;
    for (int64_t p = 0; p < part; ++p) begin += rows / parts + (p < rows % parts ? 1 : 0);
    return at >= begin && at < begin + rows / parts + (part < rows % parts ? 1 : 0);
  }
  return at / ((rows + parts - 1) / parts) == part;
}

std::vector<Rows> rows_of(const Sharding& sharding, const Mesh& mesh, const Shape& shape,
                          int64_t rank) {
  std::vector<Rows> held;
  for (const int64_t size : shape) {
    Rows rows;
    for (int64_t i = 0; i < size; ++i) rows.push_back(i);
    held.push_back(rows);
  }
  for (const ShardingStep& step : sharding.steps) {
    if (const auto* pad = std::get_if<PadStep>(&step)) {
      Rows& rows = held[static_cast<size_t>(pad->dim)];
      while (std::ssize(rows) % pad->multiple != 0) rows.push_back(-1);
      continue;
    }
    const auto& cut = std::get<CutStep>(step);
    const size_t axis = *mesh.find(cut.axis);
    Rows& rows = held[static_cast<size_t>(cut.dim)];
    Rows kept;
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      if (keeps(cut.cut, std::ssize(rows), mesh.axes()[axis].size, mesh.coordinate(rank)[axis],
                i)) {
        kept.push_back(rows[static_cast<size_t>(i)]);
      }
    }
    rows = kept;
  }
  return held;
}

Dense cut_of(const Dense& whole, const std::vector<Rows>& held) {
  Shape shape;
  for (const Rows& rows : held) shape.push_back(std::ssize(rows));
  return built(shape, [&](const Index& index) -> int64_t {
    Index from;
    for (size_t d = 0; d < index.size(); ++d) {
      from.push_back(held[d][static_cast<size_t>(index[d])]);
      if (from.back() < 0) return 0;
    }
    return at(whole, from);
  });
}

TEST(ShardingTest, RandomShardingsCutAsRowByRowAndMergeToTheWhole) {
  const std::vector<const char*> texts = {"a=2", "a=3,b=2", "a=2,b=2,c=2", "a=2,b=1,c=3,d=2"};
  for (uint64_t seed = test_seed(); seed < test_seed() + 1500; ++seed) {
    SeededDraw draw(seed);
    const MeshSet meshes = MeshSet::parse(texts[static_cast<size_t>(draw(4))]);
    Shape shape;
    for (int64_t rank = 1 + draw(3); rank > 0; --rank) shape.push_back(draw(12));
    const Sharding sharding = RandomSharding(draw, meshes, shape).make();
    const Dense whole = counting(shape, 1);
    std::vector<Dense> locals;
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    for (int64_t rank = 0; rank < meshes.size(); ++rank) {
      const LocalPart part = *local_part(sharding, meshes, shape, rank);
      locals.push_back(gather(select(identity(0, shape), part), std::vector{whole}));
      ASSERT_EQ(locals.back(), cut_of(whole, rows_of(sharding, meshes.first(), shape, rank)));
    }
    const Layout put_together = merged(sharding, meshes, shape, one_source_per_rank(meshes.size()));
    ASSERT_EQ(gather(put_together, locals), whole);
  }
}

}  // namespace
}  // namespace weightloom::testing
