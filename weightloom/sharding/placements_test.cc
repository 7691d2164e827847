#include "weightloom/sharding/placements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/sharding/layout_manifest.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string rules(const std::string& placements) {
  return R"([{"pattern": "*.weight", "placements": [)" + placements + "]}]";
}

ShardingStep step_of(const std::string& placement) {
  return parse_placements(rules(placement), "p.json").at(0).sharding.steps.at(0);
}

std::string refusal_of_placement(const std::string& placement) {
  const auto refusal = refusal_of([&] { parse_placements(rules(placement), "p.json"); });
  return refusal && refusal->code() == ErrorCode::format ? refusal->what() : "";
}

TEST(PlacementsTest, EachFormSaysOneStep) {
  EXPECT_EQ(step_of(R"({"axis": "tp", "shard": 1})"), ShardingStep(CutStep{"tp", 1}));
  EXPECT_EQ(step_of(R"({"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}})"),
            ShardingStep(CutStep{"tp", 1, {.stripes = 2}}));
  EXPECT_EQ(step_of(R"({"axis": "ep", "shard": 0, "rule": "round_robin"})"),
            ShardingStep(CutStep{"ep", 0, {.rule = CutRule::round_robin}}));
  EXPECT_EQ(step_of(R"({"axis": "tp", "shard": 0, "groups": [4, 2, 2], "copies": 2})"),
            ShardingStep(CutStep{"tp", 0, {.groups = {4, 2, 2}}, 2}));
  EXPECT_EQ(
      step_of(R"({"axis": "dp", "shard": 0, "units": [1, 3], "granularity": 8})"),
      ShardingStep(CutStep{"dp", 0, {.rule = CutRule::ragged, .units = {1, 3}, .granularity = 8}}));
  EXPECT_EQ(step_of(R"({"axis": "ep", "shard": 0, "table": [[[0, 2]], [[2, 3], [0, 1]]]})"),
            ShardingStep(
                CutStep{"ep", 0, {.rule = CutRule::table, .table = {{{0, 2}}, {{2, 3}, {0, 1}}}}}));
  EXPECT_EQ(step_of(R"({"axis": "pp", "stage": [0, 1]})"), ShardingStep(StageStep{"pp", {0, 1}}));
  EXPECT_EQ(step_of(R"({"pad": {"dim": 0, "multiple": 128}})"), ShardingStep(PadStep{0, 128}));
}

TEST(PlacementsTest, AReplicaIsNoStep) {
  const auto parsed = parse_placements(
      rules(R"({"axis": "fsdp", "replicate": true}, {"axis": "tp", "shard": 0})"), "p.json");
  EXPECT_THAT(parsed.at(0).sharding.steps, ElementsAre(ShardingStep(CutStep{"tp", 0})));
}

TEST(PlacementsTest, TheFirstRuleThatMatchesWins) {
  const auto parsed = parse_placements(
      R"([{"pattern": "a.*", "placements": [{"axis": "tp", "shard": 1}], "mesh": "expert"},
          {"pattern": "*", "placements": []}])",
      "p.json");
  EXPECT_EQ(find_placement(parsed, "a.b")->mesh, "expert");
  EXPECT_TRUE(find_placement(parsed, "b")->steps.empty());
  EXPECT_EQ(find_placement(std::span(parsed).first(1), "b"), nullptr);
}

TEST(PlacementsTest, NothingMayStandBehindTheList) {
  const auto refusal = refusal_of([] { parse_placements(R"([], "more": [])", "p.json"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::format);
  EXPECT_THAT(refusal->what(), HasSubstr("p.json: not JSON"));
}

TEST(PlacementsTest, WhatIsWrongIsNamedByPlace) {
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp"})"),
              HasSubstr("p.json: rule 0: placement 0: has 0 of 'shard'"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shard": 0, "stage": [1]})"),
              HasSubstr("has 2 of 'shard'"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shard": -1})"), HasSubstr("-1, and no dim"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shard": 0, "rule": "odd"})"),
              HasSubstr("'rule' is 'odd'"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shard": 0, "rule": "even", "units": [1]})"),
              HasSubstr("several of 'rule', 'units' and 'table'"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shards": 0})"),
              HasSubstr("did you mean 'shard'?"));
  EXPECT_THAT(refusal_of_placement(R"({"axis": "tp", "shard": 0, "table": [[0]]})"),
              HasSubstr("needs a list of [begin, end)"));
  EXPECT_TRUE(refusal_of([] { parse_placements("{}", "p.json"); }));
  EXPECT_TRUE(refusal_of([] { parse_placements("[", "p.json"); }));
}

LayoutManifest manifest_with_every_step() {
  LayoutManifest manifest;
  manifest.meshes = MeshSet::parse("dense: fsdp=2,tp=2; expert: ep=4");
  manifest.tensors = {
      {"a", DType::BF16, {8, 4}, {"", {PadStep{0, 4, 2, 3}, CutStep{"tp", 0, {.stripes = 2}}}}},
      {"e", DType::F32, {8}, {"expert", {CutStep{"ep", 0, {.rule = CutRule::balanced}, 2}}}},
      {"r", DType::I64, {}, {}},
      {"t",
       DType::U8,
       {4},
       {"",
        {StageStep{"tp", {1}},
         CutStep{"fsdp", 0, {.rule = CutRule::table, .table = {{{0, 3}}, {{3, 4}}}}}}}}};
  return manifest;
}

TEST(LayoutManifestTest, WhatIsWrittenIsReadBack) {
  const LayoutManifest manifest = manifest_with_every_step();
  EXPECT_EQ(parse_manifest(format_manifest(manifest), "layout.json"), manifest);
  LayoutManifest single = manifest;
  single.meshes = MeshSet::parse("fsdp=4");
  single.tensors.resize(1);
  EXPECT_EQ(parse_manifest(format_manifest(single), "layout.json"), single);
}

TEST(LayoutManifestTest, TheTextIsTheDocumentedOne) {
  LayoutManifest manifest;
  manifest.meshes = MeshSet::parse("fsdp=4,tp=2");
  manifest.tensors = {
      {"w", DType::BF16, {6, 4}, {.steps = {CutStep{"tp", 1}, CutStep{"fsdp", 0}}}}};
  EXPECT_EQ(format_manifest(manifest), R"({"format": "weightloom.layout/1",
"mesh": [["fsdp",4],["tp",2]],
"tensors": {
"w": {"shape":[6,4],"dtype":"BF16","placements":[{"axis":"tp","shard":1},{"axis":"fsdp","shard":0}]}
}}
)");
}

TEST(LayoutManifestTest, WhatIsBrokenIsRefused) {
  const auto message = [](const std::string& text) {
    const auto refusal = refusal_of([&] { parse_manifest(text, "layout.json"); });
    return refusal && refusal->code() == ErrorCode::format ? std::string(refusal->what()) : "";
  };
  const std::string head = R"({"format": "weightloom.layout/1", "mesh": [["tp", 2]], )";
  EXPECT_THAT(message(R"({"format": "x", "mesh": [], "tensors": {}})"), HasSubstr("format is 'x'"));
  EXPECT_THAT(message(R"({"format": "weightloom.layout/1", "tensors": {}})"),
              HasSubstr("needs one of 'mesh' and 'meshes'"));
  EXPECT_THAT(message(R"({"format": "weightloom.layout/1", "mesh": [["tp", 0]], "tensors": {}})"),
              HasSubstr("axis 'tp' has size 0"));
  EXPECT_THAT(
      message(head + R"("tensors": {"w": {"shape": [2], "dtype": "X", "placements": []}}})"),
      HasSubstr("layout.json: tensor 'w': 'X' is no dtype"));
  EXPECT_THAT(
      message(head + R"("tensors": {"w": {"shape": [-2], "dtype": "F32", "placements": []}}})"),
      HasSubstr("F32 [-2] is no shape"));
}

}  // namespace
}  // namespace weightloom
