#include "weightloom/mapping/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/mapping_testing.h"
#include "weightloom/mapping/registry.h"

namespace weightloom {
namespace {

using testing::Arrays;
using testing::converter;
using testing::counting;
using testing::Dense;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::leaves_named;
using testing::leaves_of;
using testing::names_of;
using testing::renaming;

MappingResult applied(const Mapping& mapping, std::vector<NamedLayout> leaves) {
  return apply_mapping(mapping, std::move(leaves), {});
}

const Mapping& built_in(std::string_view name) {
  static const Registry registry = Registry::built_in();
  return *registry.find(name);
}

TEST(ApplyMapping, WithoutTransformsEveryNameStays) {
  const auto result = applied({}, leaves_named({"b", "a"}));
  EXPECT_THAT(names_of(result), ElementsAre("a", "b"));
  EXPECT_EQ(result.passed_through, 2);
}

TEST(ApplyMapping, RenamingsChainInListOrder) {
  const Mapping mapping("m", {renaming("a", "b"), renaming("b", "c"), renaming("x", "y")});
  const auto result = applied(mapping, leaves_named({"a", "b", "q"}));
  EXPECT_THAT(result.findings, ::testing::SizeIs(1));  // a and b both become c
  EXPECT_THAT(result.fired, ElementsAre(1, 2, 0));
  EXPECT_EQ(result.passed_through, 1);
}

TEST(ApplyMapping, TheFirstConverterClaims) {
  const Mapping mapping("m", {converter({"x.a"}, {"one"}, {}), converter({"a"}, {"two"}, {})});
  EXPECT_THAT(names_of(applied(mapping, leaves_named({"x.a", "y.a"}))),
              ElementsAre("one", "y.two"));
}

TEST(ApplyMapping, RenamingsRunBeforeConvertersWhereverTheyStand) {
  const Mapping mapping("m", {converter({"new.a"}, {"new.b"}, {}), renaming("old", "new")});
  EXPECT_THAT(names_of(applied(mapping, leaves_named({"old.a"}))), ElementsAre("new.b"));
}

/// The worked example of the specification, "Ordering renames and converters".
TEST(ApplyMapping, SplitsAFusedProjectionAndPutsItBack) {
  const Mapping mapping(
      "m", {renaming("^old_prefix", "encoder"),
            converter({"attn.qkv_proj.weight"},
                      {"attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight"},
                      {make_chunk(0)})});
  const Arrays stored = {{"old_prefix.attn.qkv_proj.weight", counting({6, 2})}};
  const auto loaded = applied(mapping, leaves_of(stored));
  EXPECT_THAT(loaded.findings, IsEmpty());
  const Arrays runtime = {{"encoder.attn.q_proj.weight", counting({2, 2}, 0)},
                          {"encoder.attn.k_proj.weight", counting({2, 2}, 4)},
                          {"encoder.attn.v_proj.weight", counting({2, 2}, 8)}};
  EXPECT_EQ(gather(loaded, stored), runtime);
  EXPECT_EQ(gather(applied(mapping.reversed(), leaves_of(runtime)), runtime), stored);
}

TEST(ApplyMapping, ConvertsWeightsAndBiasesApart) {
  const Mapping mapping("m", {converter({"qkv"}, {"q", "k"}, {make_chunk(0)})});
  const auto result =
      applied(mapping, leaves_of({{"qkv.bias", counting({2})}, {"qkv.weight", counting({2, 3})}}));
  EXPECT_THAT(names_of(result), ElementsAre("k.bias", "k.weight", "q.bias", "q.weight"));
}

TEST(ApplyMapping, ManyToMany) {
  const Mapping mapping("m", {converter({"a", "b"}, {"c", "d"}, {make_transpose(0, 1)})});
  const Arrays stored = {{"x.a", counting({1, 2})}, {"x.b", counting({2, 1}, 5)}};
  const Arrays runtime = {{"x.c", counting({2, 1})}, {"x.d", counting({1, 2}, 5)}};
  EXPECT_EQ(gather(applied(mapping, leaves_of(stored)), stored), runtime);
  EXPECT_EQ(gather(applied(mapping.reversed(), leaves_of(runtime)), runtime), stored);
}

TEST(ApplyMapping, AStarOnBothSidesIsCarriedOver) {
  const Mapping mapping(
      "m", {converter({"layers.*.qkv"}, {"blocks.*.q", "blocks.*.k"}, {make_chunk(0)})});
  EXPECT_THAT(names_of(applied(mapping, leaves_named({"layers.0.qkv", "layers.12.qkv"}))),
              ElementsAre("blocks.0.k", "blocks.0.q", "blocks.12.k", "blocks.12.q"));
}

TEST(ApplyMapping, OfTwoStarsTheRightOneCollects) {
  const Mapping mapping(
      "m", {converter({"l.*.e.*.w"}, {"layer.*.experts"}, {make_merge_modulelist(0)})});
  const Arrays stored = {{"l.3.e.0.w", counting({1})}, {"l.3.e.1.w", counting({1}, 7)}};
  EXPECT_EQ(gather(applied(mapping, leaves_of(stored)), stored),
            (Arrays{{"layer.3.experts", Dense{{2, 1}, {0, 7}}}}));
}

TEST(ApplyMapping, BackReferencesKeepGroupsApart) {
  const Mapping mapping(
      "m", {converter({R"(l(\d+)\.e.*.w)"}, {R"(l\1.e)"}, {make_merge_modulelist(0)})});
  EXPECT_THAT(names_of(applied(mapping, leaves_named({"l0.e.0.w", "l0.e.1.w", "l1.e.0.w"}))),
              ElementsAre("l0.e", "l1.e"));
}

/// Case from the field: experts sorted as strings land in wrong places (pytorch/torchtitan#2177).
TEST(ApplyMapping, ExpertTenComesAfterExpertNine) {
  const Mapping mapping("m", {converter({"e.*.w"}, {"e"}, {make_merge_modulelist(0)})});
  Arrays stored;
  for (int64_t e = 0; e < 12; ++e) stored["e." + std::to_string(e) + ".w"] = counting({1}, e);
  EXPECT_EQ(gather(applied(mapping, leaves_of(stored)), stored),
            (Arrays{{"e", counting({12, 1})}}));
}

TEST(ApplyMapping, NamesMayHoldAnyUnicode) {
  const Mapping mapping("m",
                        {renaming(R"(\.gewicht$)", ".weight"),
                         converter({"größen.*.weight"}, {"größe"}, {make_merge_modulelist(0)})});
  EXPECT_THAT(names_of(applied(mapping, leaves_named({"层.größen.0.gewicht"}))),
              ElementsAre("层.größe"));
}

std::vector<std::string> moe_names(const std::string& layer,
                                   const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  for (const char* expert : {"0", "1"}) {
    for (const auto& part : parts)
      names.push_back(layer + ".experts." + expert + "." + part + ".weight");
  }
  return names;
}

TEST(Mixtral, NamesForwardAndBack) {
  auto names = moe_names("model.layers.0.block_sparse_moe", {"w1", "w2", "w3"});
  names.insert(names.end(), {"lm_head.weight", "model.layers.0.block_sparse_moe.gate.weight"});
  std::ranges::sort(names);
  const auto loaded = applied(built_in("mixtral"), leaves_named(names));
  EXPECT_THAT(loaded.findings, IsEmpty());
  EXPECT_THAT(
      names_of(loaded),
      ElementsAre("lm_head.weight", "model.layers.0.mlp.experts.down_proj",
                  "model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.gate.weight"));
  EXPECT_THAT(loaded.fired, ElementsAre(7, 4, 2));
  EXPECT_EQ(loaded.passed_through, 1);
  const auto saved = applied(built_in("mixtral").reversed(), loaded.tensors);
  EXPECT_THAT(saved.findings, IsEmpty());
  EXPECT_EQ(names_of(saved), names);
  EXPECT_EQ(saved.passed_through, 1);
}

TEST(Mixtral, StacksGateOverUp) {
  const Arrays stored = {{"e.experts.0.w1.weight", counting({1, 2}, 0)},
                         {"e.experts.0.w3.weight", counting({1, 2}, 10)},
                         {"e.experts.1.w1.weight", counting({1, 2}, 20)},
                         {"e.experts.1.w3.weight", counting({1, 2}, 30)}};
  const auto result = gather(applied(built_in("mixtral"), leaves_of(stored)), stored);
  EXPECT_EQ(result,
            (Arrays{{"e.experts.gate_up_proj", Dense{{2, 2, 2}, {0, 1, 10, 11, 20, 21, 30, 31}}}}));
}

/// Case from the field: `experts.` found in `shared_experts.` (huggingface/transformers#45782).
TEST(Qwen2Moe, LeavesSharedExpertsAlone) {
  auto names = moe_names("model.layers.3.mlp", {"gate_proj", "up_proj", "down_proj"});
  const std::vector<std::string> others = {"model.layers.3.mlp.gate.weight",
                                           "model.layers.3.mlp.shared_experts.down_proj.weight",
                                           "model.layers.3.mlp.shared_experts.gate_proj.weight",
                                           "model.layers.3.mlp.shared_experts.up_proj.weight"};
  names.insert(names.end(), others.begin(), others.end());
  std::ranges::sort(names);
  const auto loaded = applied(built_in("deepseek_v3"), leaves_named(names));
  EXPECT_THAT(loaded.findings, IsEmpty());
  EXPECT_THAT(names_of(loaded), ElementsAre("model.layers.3.mlp.experts.down_proj",
                                            "model.layers.3.mlp.experts.gate_up_proj", others[0],
                                            others[1], others[2], others[3]));
  EXPECT_EQ(loaded.passed_through, 4);
  EXPECT_EQ(names_of(applied(built_in("deepseek_v3").reversed(), loaded.tensors)), names);
}

}  // namespace
}  // namespace weightloom
