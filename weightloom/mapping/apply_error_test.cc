// What apply_mapping refuses: each test pins the code, the names and the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using ::testing::AllOf;
using testing::converter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::leaves_named;
using testing::names_of;
using ::testing::Not;
using testing::renaming;
using ::testing::SizeIs;

using Names = std::vector<std::string>;

Mapping moe() {
  return Mapping(
      "moe", {renaming(".block_sparse_moe.", ".mlp."),
              converter({".experts.*.w1.weight", ".experts.*.w3.weight"}, {".experts.gate_up_proj"},
                        {make_merge_modulelist(0, {"num_experts"}), make_concatenate(1)})});
}

constexpr std::string_view kLayer = "model.layers.1.block_sparse_moe.experts.";

/// Names of w1 and w3 of these experts.
Names experts(const std::vector<int>& numbers, const Names& parts = {"w1", "w3"}) {
  Names names;
  for (const int e : numbers) {
    for (const auto& part : parts) {
      names.push_back(std::string(kLayer) + std::to_string(e) + "." + part + ".weight");
    }
  }
  return names;
}

std::vector<Finding> findings(const Mapping& mapping, const Names& names,
                              std::string_view config = "{}") {
  return apply_mapping(mapping, leaves_named(names), ModelConfig::parse(config, "config.json"))
      .findings;
}

/// The message of the only finding, of that code.
std::string only(const std::vector<Finding>& findings, std::string_view code) {
  EXPECT_THAT(findings, SizeIs(1));
  if (findings.empty()) return "(nothing found)";
  EXPECT_EQ(findings[0].code, code);
  EXPECT_EQ(findings[0].severity, Severity::error);
  return findings[0].message;
}

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(MissingSource, NamesTheAbsentTensorAsTheCheckpointWould) {
  const auto found = findings(moe(), experts({0, 1, 2}) + experts({3}, {"w1"}));
  EXPECT_THAT(only(found, "missing_source"),
              HasSubstr("'model.layers.1.mlp.experts.gate_up_proj': of its sources, "
                        "'model.layers.1.block_sparse_moe.experts.3.w3.weight' is missing"));
  EXPECT_EQ(found[0].tensor, "model.layers.1.block_sparse_moe.experts.3.w3.weight");
}

TEST(MissingSource, NamesAWholeAbsentSource) {
  EXPECT_THAT(
      only(findings(moe(), experts({0, 1}, {"w3"})), "missing_source"),
      AllOf(HasSubstr("experts.0.w1.weight"), HasSubstr("experts.1.w1.weight' are missing")));
  const Mapping fuse("m", {converter({"q", "k", "v"}, {"qkv"}, {make_concatenate(0)})});
  EXPECT_THAT(only(findings(fuse, {"a.q.bias", "a.v.bias"}), "missing_source"),
              HasSubstr("'a.qkv.bias': of its sources, 'a.k.bias' is missing"));
}

TEST(MissingSource, WithoutOneTextIsNamedByItsPattern) {
  const Mapping fuse("m", {converter({"q", "[kK]"}, {"qk"}, {make_concatenate(0)})});
  EXPECT_THAT(only(findings(fuse, {"a.q"}), "missing_source"),
              HasSubstr("'[kK] (item 0)' is missing"));
}

/// Case from the field: transformers moves experts 8..12 one place down, silently.
TEST(IndexGap, NamesTheHoleAndWhatStandsPastTheEnd) {
  const auto found = findings(moe(), experts({0, 1, 2, 4}));
  EXPECT_THAT(only(found, "index_gap"),
              AllOf(HasSubstr("'model.layers.1.block_sparse_moe.experts.3.w1.weight', "
                              "'model.layers.1.block_sparse_moe.experts.3.w3.weight' are missing"),
                    HasSubstr("4 items are numbered up to 4"),
                    HasSubstr("'model.layers.1.block_sparse_moe.experts.4.w1.weight'")));
}

TEST(IndexGap, OfAHugeIndexIsCountedNotWalked) {
  EXPECT_THAT(only(findings(moe(), experts({0, 2147483646})), "index_gap"),
              HasSubstr("and 4294967274 more are missing"));
}

TEST(CountMismatch, NamesTheExpertsThatTheConfigPromises) {
  EXPECT_THAT(only(findings(moe(), experts({0, 1}), R"({"num_experts": 3})"), "count_mismatch"),
              AllOf(HasSubstr("experts.2.w1.weight"), HasSubstr("experts.2.w3.weight' are missing"),
                    HasSubstr("config.json says num_experts = 3")));
  EXPECT_THAT(only(findings(moe(), experts({0, 1}), R"({"num_experts": 1})"), "count_mismatch"),
              AllOf(HasSubstr("experts.1.w1.weight"), HasSubstr("are too many")));
  EXPECT_THAT(findings(moe(), experts({0, 1}), R"({"num_experts": 2})"), IsEmpty());
}

TEST(CountMismatch, HoldsOnTheWayBackToo) {
  const auto result =
      apply_mapping(moe().reversed(), leaves_named({"a.experts.gate_up_proj"}, {2, 2, 2}),
                    ModelConfig::parse(R"({"num_experts": 3})", "config.json"));
  EXPECT_THAT(only(result.findings, "count_mismatch"),
              HasSubstr("there are 2 items, but config.json says num_experts = 3"));
}

TEST(BadIndex, IsNoDecimalNumber) {
  const Mapping merge("m", {converter({"e.*.w"}, {"e"}, {make_merge_modulelist(0)})});
  EXPECT_THAT(only(findings(merge, {"e.0.w", "e.01.w"}), "bad_index"),
              AllOf(HasSubstr("'e.01.w' would go into 'e'"), HasSubstr("'01', is no index")));
  EXPECT_THAT(only(findings(merge, {"e.x.w"}), "bad_index"), HasSubstr("'x'"));
  EXPECT_THAT(only(findings(merge, {"e.99999999999.w"}), "bad_index"), HasSubstr("'99999999999'"));
}

TEST(DtypeMismatch, NamesBothTensors) {
  auto leaves = leaves_named(experts({0}));
  leaves[1].dtype = DType::BF16;
  EXPECT_THAT(
      only(apply_mapping(moe(), leaves, {}).findings, "dtype_mismatch"),
      AllOf(HasSubstr("experts.0.w3.weight' is BF16"), HasSubstr("experts.0.w1.weight' is F32")));
}

TEST(ShapeMismatch, NamesTheTensorsAndTheirShapes) {
  auto leaves = leaves_named(experts({0, 1}, {"w1"}) + experts({0, 1}, {"w3"}));
  leaves[1].layout = identity(1, {2, 3});
  EXPECT_THAT(
      only(apply_mapping(moe(), leaves, {}).findings, "shape_mismatch"),
      AllOf(HasSubstr("tensor 1 has shape [2, 3], but tensor 0 has [2, 2]"),
            HasSubstr("experts.0.w1.weight' [2, 2]"), HasSubstr("experts.1.w1.weight' [2, 3]")));
}

TEST(DuplicateTarget, NamesBothSources) {
  const Mapping mapping("m", {renaming("gamma", "weight")});
  EXPECT_THAT(only(findings(mapping, {"ln.gamma", "ln.weight"}), "duplicate_target"),
              AllOf(HasSubstr("'ln.weight' would be made twice"), HasSubstr("'ln.gamma'")));
}

TEST(DuplicateTarget, OfAListAndAStackedTensor) {
  EXPECT_THAT(only(findings(moe(), experts({0}) + Names{"model.layers.1.mlp.experts.gate_up_proj"}),
                   "duplicate_target"),
              HasSubstr("'model.layers.1.mlp.experts.gate_up_proj' would be made twice"));
}

TEST(DuplicateTarget, OfTwoTensorsForOnePlace) {
  const Mapping mapping("m", {renaming("old", "new"), converter({"new.a"}, {"b"}, {})});
  EXPECT_THAT(only(findings(mapping, {"new.a", "old.a"}), "duplicate_target"),
              HasSubstr("'new.a' and 'old.a' both go to one place of 'b'"));
}

TEST(Required, UnmatchedIsAnError) {
  WeightRenaming required = renaming("absent", "x");
  required.required = true;
  EXPECT_THAT(only(findings(Mapping("m", {required}), {"a"}), "required_unmatched"),
              HasSubstr("transforms[0] is required, but no tensor matches 'absent'"));
  EXPECT_THAT(findings(Mapping("m", {required}), {"absent.w"}), IsEmpty());
}

TEST(Order, ARenamingMayNotRewriteWhatAConverterMade) {
  const Mapping mapping("m", {renaming("fused", "x"), converter({"a"}, {"fused"}, {})});
  EXPECT_THAT(only(findings(mapping, {"1.a", "2.a"}), "rename_rewrites_product"),
              AllOf(HasSubstr("'1.fused', which transforms[1] makes"), HasSubstr("to '1.x'"),
                    HasSubstr("transforms[0]")));
}

TEST(Order, AConvertersProductStaysWhereItsNameIsTheModels) {
  const Mapping mapping("m", {renaming("fused", "x"), converter({"a"}, {"fused"}, {})});
  const ApplyOptions options{.runtime = RuntimeNames::exactly({"1.fused"}, "")};
  const MappingResult known = apply_mapping(mapping, leaves_named({"1.a"}), ModelConfig(), options);
  EXPECT_THAT(known.findings, IsEmpty());
  EXPECT_THAT(names_of(known), ElementsAre("1.fused"));
}

TEST(TargetCount, StatesBothNumbers) {
  const Mapping two("m", {converter({"a"}, {"b", "c"}, {make_transpose(0, 1)})});
  EXPECT_THAT(only(findings(two, {"a"}), "target_count"),
              HasSubstr("give 1 tensors, but there are 2 target patterns"));
  const Mapping list("m", {converter({"a.*.w"}, {"b"}, {make_transpose(0, 1)})});
  EXPECT_THAT(only(findings(list, {"a.0.w", "a.1.w"}), "target_count"), HasSubstr("a list of 2"));
  const Mapping one("m", {converter({"a"}, {"b.*.w"}, {make_transpose(0, 1)})});
  EXPECT_THAT(only(findings(one, {"a"}), "target_count"), HasSubstr("numbers a list"));
}

TEST(Operation, ThatRefusesIsNamedWithItsTensors) {
  const Mapping three("m", {converter({"a"}, {"b", "c", "d"}, {make_chunk(0)})});
  EXPECT_THAT(
      only(findings(three, {"x.a"}), "shape_mismatch"),
      HasSubstr("'x.b': Chunk: dim 0 of [2, 2] does not divide into 3 equal parts (of 'x.a' "
                "[2, 2])"));
}

struct Pair {
  const char* weight;
  const char* companion;
};

class Companion : public ::testing::TestWithParam<Pair> {};

TEST_P(Companion, OfAConvertedTensorIsRefused) {
  const Mapping mapping("m", {converter({"e.*.weight"}, {"e"}, {make_merge_modulelist(0)}),
                              converter({"gate_up_proj"}, {"gate", "up"}, {make_chunk(0)})});
  const auto [weight, companion] = GetParam();
  EXPECT_THAT(only(findings(mapping, {weight, companion}), "companion_refused"),
              AllOf(HasSubstr("1 of its sources has a companion"),
                    HasSubstr(std::string("'") + companion + "' belongs to '" + weight + "'")));
}

TEST_P(Companion, WithoutItsOwnerIsRefused) {
  const Mapping mapping("m", {converter({"e.*.weight"}, {"e"}, {make_merge_modulelist(0)}),
                              converter({"gate_up_proj"}, {"gate", "up"}, {make_chunk(0)})});
  const auto [weight, companion] = GetParam();
  EXPECT_THAT(only(findings(mapping, {companion}), "companion_refused"),
              HasSubstr(std::string("'") + companion + "' stands without its '" + weight + "'"));
}

TEST_P(Companion, OfATensorThatMovesByNameIsNone) {
  const auto [weight, companion] = GetParam();
  EXPECT_THAT(findings(Mapping("m", {renaming("^", "model.")}), {weight, companion}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, Companion,
    ::testing::Values(
        Pair{"e.0.weight", "e.0.weight_scale"}, Pair{"e.0.weight", "e.0.weight_scale_2"},
        Pair{"e.0.weight", "e.0.weight_packed"}, Pair{"e.0.weight", "e.0.weight_zero_point"},
        Pair{"e.0.weight", "e.0.weight_g_idx"}, Pair{"e.0.weight", "e.0.weight_shape"},
        Pair{"e.0.weight", "e.0.weight_global_scale"}, Pair{"e.0.weight", "e.0.scale"},
        Pair{"e.0.weight", "e.0.scale_weight"}, Pair{"e.0.weight", "e.0.input_scale"},
        Pair{"e.0.weight", "e.0.activation_scale"}, Pair{"e.0.weight", "e.0.qscale_weight"},
        Pair{"e.0.weight", "e.0.SCB"}, Pair{"e.0.weight", "e.0.qweight"},
        Pair{"e.0.weight", "e.0.weight.absmax"}, Pair{"e.0.weight", "e.0.weight.quant_map"},
        Pair{"e.0.weight", "e.0.weight.quant_state.bitsandbytes__nf4"}));

TEST(Companion, OfAPackedTensorIsRefused) {
  const Mapping mapping("m", {converter({R"(gate_up_proj$)"}, {"gate", "up"}, {make_chunk(0)})});
  for (const char* suffix : {"_scale_inv", "_blocks", "_scales"}) {
    EXPECT_THAT(
        only(findings(mapping, {std::string("a.gate_up_proj") + suffix}), "companion_refused"),
        HasSubstr("stands without its 'a.gate_up_proj'"));
  }
}

TEST(Companion, OnePairPerTargetAndTheCountAreNamed) {
  const Names names = experts({0, 1}) + experts({0, 1}, {"w1.weight_scale_inv_x"});
  EXPECT_THAT(findings(moe(), names), IsEmpty());  // no spelling of a companion
  Names scaled = experts({0, 1});
  for (const auto& name : experts({0, 1})) scaled.push_back(name + "_scale");
  EXPECT_THAT(only(findings(moe(), scaled), "companion_refused"),
              AllOf(HasSubstr("'model.layers.1.mlp.experts.gate_up_proj': 4 of its sources have"),
                    HasSubstr("experts.0.w1.weight_scale'"), Not(HasSubstr("experts.1"))));
}

TEST(Findings, AreAllListedAtOnce) {
  const auto found = findings(moe(), experts({0}, {"w1"}) + Names{"a.experts.0.w1.weight"});
  EXPECT_THAT(found, SizeIs(2));
}

/// A list of which nothing is there is missing like one of which something is.
TEST(MissingSource, IsAlsoAListWithoutAnyItem) {
  for (const Names& sources :
       {Names{"experts.*.w", "shared.w"}, Names{"shared.w", "experts.*.w"}}) {
    const Mapping mapping("m", {converter(sources, {"fused"}, {make_concatenate(0)})});
    EXPECT_THAT(only(findings(mapping, {"l.shared.w"}), "missing_source"),
                HasSubstr("'l.experts.0.w' is missing"));
  }
}

}  // namespace
}  // namespace weightloom
