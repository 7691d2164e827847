#include "weightloom/sharding/dtensor_placements.h"

#include <algorithm>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/error_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/sharding/hf_load_plan.h"

namespace weightloom::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = DTensorPlacement::Kind;

DTensorPlacement placement_of(const json& value) {
  if (!value.contains("shard")) return {};
  if (!value.contains("split_factor")) return {Kind::shard, value.at("shard")};
  return {Kind::strided_shard, value.at("shard"), value.at("split_factor")};
}

TEST(DTensorPlacementsTest, TheWorkedCasesGiveTheirCuts) {
  std::ifstream file(std::string(WEIGHTLOOM_TEST_DATA) + "/loadspec_cases.json");
  const json all = json::parse(file);
  int compared = 0;
  for (const json& one : all.at("cases")) {
    if (one.at("kind") != "placements") continue;
    std::vector<MeshAxis> axes;
    for (const json& size : one.at("mesh")) axes.push_back({std::to_string(axes.size()), size});
    std::vector<DTensorPlacement> placements;
    for (const json& value : one.at("placements")) placements.push_back(placement_of(value));
    json cuts = json::array();
    for (const CutStep& cut : cuts_of(Mesh::make(axes), placements)) {
      cuts.push_back(
          {{"mesh_dim", std::stoi(cut.axis)}, {"dim", cut.dim}, {"interleave", cut.cut.stripes}});
    }
    EXPECT_EQ(cuts, one.at("expect_shards")) << one.at("name");
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

const std::vector<DTensorPlacement> kFsdpOverTp = {{Kind::strided_shard, 0, 2}, {Kind::shard, 0}};

/// First row and number of rows of each rank; {-1, 0} for none.
std::vector<std::pair<int64_t, int64_t>> rows_of(const MeshSet& meshes, int64_t rows,
                                                 PlacementOrder order) {
  Sharding sharding;
  for (const CutStep& cut : cuts_of(meshes.first(), kFsdpOverTp, order)) {
    sharding.steps.emplace_back(cut);
  }
  std::vector<std::pair<int64_t, int64_t>> held;
  for (int64_t rank = 0; rank < meshes.size(); ++rank) {
    const Segments part = local_part(sharding, meshes, {rows}, rank)->front();
    held.emplace_back(part.empty() ? -1 : part.front().begin, length(part));
  }
  return held;
}

// What torch 2.13 computes on a fake process group, rank by rank.
TEST(DTensorPlacementsTest, BothOrdersAreTorchsWhereSizesDivide) {
  const MeshSet meshes = MeshSet::parse("fsdp=2,tp=2");
  const std::vector<std::pair<int64_t, int64_t>> torch = {{0, 2}, {4, 2}, {2, 2}, {6, 2}};
  EXPECT_EQ(rows_of(meshes, 8, PlacementOrder::carving), torch);
  EXPECT_EQ(rows_of(meshes, 8, PlacementOrder::left_to_right), torch);
}

TEST(DTensorPlacementsTest, LeftToRightIsTorchsWhereTheyDoNot) {
  EXPECT_THAT(rows_of(MeshSet::parse("fsdp=2,tp=2"), 7, PlacementOrder::left_to_right),
              ElementsAre(std::pair(0, 2), std::pair(4, 2), std::pair(2, 2), std::pair(6, 1)));
  EXPECT_THAT(rows_of(MeshSet::parse("fsdp=3,tp=2"), 7, PlacementOrder::left_to_right),
              ElementsAre(std::pair(0, 2), std::pair(4, 1), std::pair(2, 2), std::pair(5, 1),
                          std::pair(6, 1), std::pair(-1, 0)));
}

TEST(DTensorPlacementsTest, CarvingIsWhatFsdpLeavesOfWhatTpLeft) {
  // tp: rows 0 to 3, 4 to 6; fsdp cuts each in three.
  EXPECT_THAT(rows_of(MeshSet::parse("fsdp=3,tp=2"), 7, PlacementOrder::carving),
              ElementsAre(std::pair(0, 2), std::pair(4, 1), std::pair(2, 2), std::pair(5, 1),
                          std::pair(-1, 0), std::pair(6, 1)));
}

/// The rows of each rank, in its order.
std::vector<std::vector<int64_t>> rows_under(const Mesh& mesh,
                                             const std::vector<DTensorPlacement>& placements,
                                             int64_t rows, PlacementOrder order) {
  Sharding sharding;
  for (const CutStep& cut : cuts_of(mesh, placements, order)) sharding.steps.emplace_back(cut);
  std::vector<std::vector<int64_t>> held(static_cast<size_t>(mesh.size()));
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    const auto part = local_part(sharding, MeshSet(mesh), {rows}, rank);
    for (const Segment& segment : part->front()) {
      for (int64_t i = 0; i < segment.size; ++i) {
        held[static_cast<size_t>(rank)].push_back(segment.begin + i);
      }
    }
  }
  return held;
}

// What fully_shard of torch 2.13 holds of a column-parallel weight of 13 rows, rank by rank.
TEST(DTensorPlacementsTest, CarvingIsWhatFullyShardStores) {
  EXPECT_THAT(rows_under(Mesh::parse("fsdp=3,tp=2"), kFsdpOverTp, 13, PlacementOrder::carving),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(7, 8), ElementsAre(3, 4, 5),
                          ElementsAre(9, 10), ElementsAre(6), ElementsAre(11, 12)));
}

// What distribute_tensor of torch 2.13 gives of 16 rows; and FSDP of stripes, by hand.
TEST(DTensorPlacementsTest, WithoutAnOrderTheTwoDifferEvenIfSizesDivide) {
  const std::vector<DTensorPlacement> placements = {
      {Kind::strided_shard, 0, 4}, {Kind::shard, 0}, {Kind::strided_shard, 0, 2}};
  const Mesh mesh = Mesh::parse("fsdp=2,ep=2,etp=2");
  const auto torch = rows_under(mesh, placements, 16, PlacementOrder::left_to_right);
  EXPECT_THAT(torch[0], ElementsAre(0, 4));
  EXPECT_THAT(torch[1], ElementsAre(1, 5));
  EXPECT_THAT(torch[2], ElementsAre(8, 12));
  EXPECT_THAT(torch[4], ElementsAre(2, 6));
  const auto carved = rows_under(mesh, placements, 16, PlacementOrder::carving);
  EXPECT_THAT(carved[0], ElementsAre(0, 1));
  EXPECT_THAT(carved[4], ElementsAre(4, 5));
}

/// Cuts of one dim by each axis of a mesh, in some order, and the placements that say so.
struct OrderedCuts {
  Mesh mesh;
  Sharding by_hand;
  std::vector<DTensorPlacement> placements;
};

OrderedCuts random_cuts(std::mt19937_64& random) {
  std::vector<MeshAxis> axes(1 + random() % 4);
  std::vector<size_t> order;
  for (MeshAxis& axis : axes) {
    order.push_back(order.size());
    axis = {"a" + std::to_string(order.back()), 1 + static_cast<int64_t>(random() % 3)};
  }
  std::ranges::shuffle(order, random);
  OrderedCuts cuts{Mesh::make(axes), {}, std::vector<DTensorPlacement>(axes.size())};
  for (size_t place = 0; place < order.size(); ++place) {
    const size_t axis = order[place];
    cuts.by_hand.steps.emplace_back(CutStep{axes[axis].name, 0});
    // Left to right, what axes further right cut before are pieces that stand there already.
    int64_t factor = 1;
    for (size_t before = 0; before < place; ++before) {
      if (order[before] > axis) factor *= axes[order[before]].size;
    }
    cuts.placements[axis] = {factor > 1 ? Kind::strided_shard : Kind::shard, 0, factor};
  }
  return cuts;
}

TEST(DTensorPlacementsTest, EveryOrderOfCutsIsFoundAndIsTorchsWhereSizesDivide) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    const OrderedCuts cuts = random_cuts(random);
    const int64_t rows = cuts.mesh.size() * (1 + round % 2);
    const auto carved = rows_under(cuts.mesh, cuts.placements, rows, PlacementOrder::carving);
    EXPECT_EQ(carved, rows_under(cuts.mesh, cuts.placements, rows, PlacementOrder::left_to_right));
    for (int64_t rank = 0; rank < cuts.mesh.size(); ++rank) {
      const auto part = local_part(cuts.by_hand, MeshSet(cuts.mesh), {rows}, rank);
      EXPECT_EQ(part->front().front().begin, carved[static_cast<size_t>(rank)].front());
      EXPECT_EQ(length(part->front()), std::ssize(carved[static_cast<size_t>(rank)]));
    }
  }
}

TEST(DTensorPlacementsTest, PlacementsAreOnePerAxis) {
  const Mesh mesh = Mesh::parse("fsdp=2,tp=2,ep=2");
  EXPECT_THAT(weightloom::refusal_of([&] { cuts_of(mesh, kFsdpOverTp); })->what(),
              HasSubstr("2 placements for the 3 axes"));
}

TEST(DTensorPlacementsTest, ASpecIsDerivedAnewAfterEachChange) {
  const Mesh mesh = Mesh::parse("fsdp=2,tp=2");
  CurrentLayout layout;
  layout.name = "q";
  layout.global_hf_keys = {"hub.q"};
  layout.global_shape = {8, 3};
  layout.placements = {{}, {Kind::shard, 0}};
  const MeshSet meshes(mesh);
  EXPECT_EQ(local_shape(local_part(bind(derive_spec(layout, mesh), meshes, 2))), (Shape{4, 3}));
  layout.placements = kFsdpOverTp;
  EXPECT_EQ(local_shape(local_part(bind(derive_spec(layout, mesh), meshes, 2))), (Shape{2, 3}));
  layout.global_shape = {12, 3};
  layout.origin_shape = {8, 3};
  const LoadSpec padded = bind(derive_spec(layout, mesh), meshes, 3);
  EXPECT_EQ(local_shape(local_part(padded)), (Shape{3, 3}));
  EXPECT_TRUE(plan_hf_load(padded).zero_fill);
}

TEST(CheckTensorTest, ATensorThatDisagreesIsRefusedWithBoth) {
  const LoadSpec spec = LoadSpec::make({.name = "w",
                                        .global_hf_keys = {"a"},
                                        .global_shape = {8, 3},
                                        .shards = {{.dim = 0, .size = 2, .rank = 0}}});
  check_tensor(spec, {{4, 3}, DType::BF16});
  check_tensor(spec, {{4, 3}, DType::BF16}, DType::BF16);
  EXPECT_THAT(weightloom::refusal_of([&] { check_tensor(spec, {{2, 3}, DType::BF16}); })->what(),
              HasSubstr("'w' has shape [2, 3], but its LoadSpec gives [4, 3]"));
  EXPECT_THAT(weightloom::refusal_of([&] {
                check_tensor(spec, {{4, 3}, DType::BF16}, DType::F32);
              })->what(),
              HasSubstr("'w' is BF16, but F32 is needed"));
}

Sharding sharding_of(const std::vector<CutStep>& cuts) {
  Sharding sharding;
  for (const CutStep& cut : cuts) sharding.steps.emplace_back(cut);
  return sharding;
}

TEST(DTensorPlacementsTest, TheWayBackNamesCutsInTorchsWords) {
  const Mesh mesh = Mesh::parse("fsdp=2,tp=2");
  const CutStep fsdp{"fsdp", 0};
  const CutStep tp{"tp", 0};
  const CutStep packed{"tp", 0, {.stripes = 2}};
  const DTensorPlacement rows{Kind::shard, 0, 1};
  const DTensorPlacement strided{Kind::strided_shard, 0, 2};
  EXPECT_THAT(placements_of(mesh, sharding_of({fsdp}), {8}).value(),
              ElementsAre(rows, DTensorPlacement()));
  EXPECT_THAT(placements_of(mesh, sharding_of({fsdp, tp}), {7}).value(), ElementsAre(rows, rows));
  EXPECT_THAT(placements_of(mesh, sharding_of({tp, fsdp}), {8}).value(),
              ElementsAre(strided, rows));
  EXPECT_THAT(placements_of(mesh, sharding_of({packed}), {8}).value(),
              ElementsAre(DTensorPlacement(), strided));
  EXPECT_TRUE(placements_of(mesh, sharding_of({packed}), {7}));
  EXPECT_FALSE(placements_of(mesh, sharding_of({tp, fsdp}), {7})) << "torch computes other rows";
  EXPECT_FALSE(placements_of(mesh, sharding_of({packed, fsdp}), {16})) << "and here";
  EXPECT_FALSE(placements_of(mesh, sharding_of({{"tp", 0, {.rule = CutRule::even}}}), {8}));
  EXPECT_FALSE(placements_of(mesh, sharding_of({{"tp", 0, {}, 2}}), {8}));
  EXPECT_FALSE(placements_of(mesh, {.steps = {PadStep{0, 4}}}, {8}));
}

/// Cuts of a tensor of two dims along some axes of a mesh of three, in any order.
std::vector<CutStep> random_stripes(std::mt19937_64& random) {
  std::vector<std::string> axes = {"a", "b", "c"};
  std::ranges::shuffle(axes, random);
  axes.resize(random() % 4);
  std::vector<CutStep> cuts;
  for (const std::string& axis : axes) {
    const int64_t stripes = random() % 4 == 0 ? 2 + static_cast<int64_t>(random() % 2) : 1;
    cuts.push_back({axis, static_cast<int>(random() % 2), {.stripes = stripes}});
  }
  return cuts;
}

TEST(DTensorPlacementsTest, WhatTorchReadsOfTheWayBackIsWhatWasCut) {
  std::mt19937_64 random(7);
  const MeshSet meshes = MeshSet::parse("a=2,b=3,c=2");
  int said = 0;
  for (int i = 0; i < 3000; ++i) {
    const Sharding sharding = sharding_of(random_stripes(random));
    const Shape shape = {static_cast<int64_t>(random() % 40), 24};
    const auto placements = placements_of(meshes.first(), sharding, shape);
    if (!placements) continue;
    ++said;
    const Sharding read =
        sharding_of(cuts_of(meshes.first(), *placements, PlacementOrder::left_to_right));
    for (int64_t rank = 0; rank < meshes.size(); ++rank) {
      EXPECT_EQ(local_part(read, meshes, shape, rank), local_part(sharding, meshes, shape, rank));
    }
  }
  EXPECT_GT(said, 1000);
}

}  // namespace
}  // namespace weightloom::testing
