#include "weightloom/mapping/runtime_names.h"

#include <gtest/gtest.h>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using testing::leaves_named;
using Names = std::vector<std::string>;

Names names_of(const MappingResult& result) {
  Names names;
  for (const auto& tensor : result.tensors) names.push_back(tensor.name);
  return names;
}

Names applied(const std::string& transforms, const Names& names, const RuntimeNames& runtime) {
  const Mapping mapping = Mapping::parse(
      R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [)" + transforms + "]}",
      "m.json");
  ApplyOptions options;
  options.runtime = runtime;
  const auto result = apply_mapping(mapping, leaves_named(names, {4, 2}), ModelConfig(), options);
  EXPECT_TRUE(result.findings.empty());
  return names_of(result);
}

constexpr const char* kFuse =
    R"({"type": "WeightConverter", "source_patterns": ["q.weight", "k.weight"],
        "target_patterns": ["qk.weight"], "operations": [{"op": "Concatenate", "dim": 0}]})";
constexpr const char* kSplit =
    R"({"type": "WeightConverter", "source_patterns": ["qk.weight"],
        "target_patterns": ["q.weight", "k.weight"], "operations": [{"op": "Chunk", "dim": 0}]})";

TEST(TemplateOf, ReplacesWholeComponentsOfDigits) {
  EXPECT_EQ(template_of("model.layers.11.fc1.0"), "model.layers.*.fc1.*");
  EXPECT_EQ(template_of("7"), "*");
  EXPECT_EQ(template_of(""), "");
  EXPECT_EQ(template_of("a..b."), "a..b.");
}

TEST(RuntimeNames, KnowNothingAtFirst) {
  const RuntimeNames names;
  EXPECT_FALSE(names.known());
  EXPECT_FALSE(names.has("x"));
  EXPECT_TRUE(names.prefix_edit("x").empty());
}

TEST(RuntimeNames, TemplatesHoldForEveryNumberAndForTheBiasOfAWeight) {
  const auto names = RuntimeNames::like({"layers.*.q.weight", "layers.*.norm"}, "");
  EXPECT_TRUE(names.has("layers.31.q.weight"));
  EXPECT_TRUE(names.has("layers.31.q.bias"));
  EXPECT_FALSE(names.has("layers.x.q.weight"));
  EXPECT_FALSE(names.has("layers.0.norm.bias"));
  EXPECT_FALSE(RuntimeNames::exactly({"layers.0.q.weight"}, "").has("layers.0.q.bias"));
}

TEST(RuntimeNames, ABaseCheckpointGetsThePrefixInAHeadModel) {
  const auto head = RuntimeNames::exactly({"bert.a.weight", "cls.weight"}, "bert");
  EXPECT_EQ(applied("", {"a.weight", "cls.weight"}, head), (Names{"bert.a.weight", "cls.weight"}));
}

TEST(RuntimeNames, AHeadCheckpointLosesThePrefixInABaseModel) {
  const auto base = RuntimeNames::exactly({"a.weight"}, "bert");
  EXPECT_EQ(applied("", {"bert.a.weight", "cls.weight"}, base), (Names{"a.weight", "cls.weight"}));
}

TEST(RuntimeNames, ThePrefixIsAWholeComponent) {
  const auto base = RuntimeNames::exactly({"weight", "a.weight"}, "bert");
  EXPECT_EQ(applied("", {"bertXweight", "bert.a.weight"}, base),
            (Names{"a.weight", "bertXweight"}));
}

TEST(RuntimeNames, WhatAConverterMakesGetsThePrefixOnAllItsTargets) {
  const auto head = RuntimeNames::exactly({"m.l.q.weight", "m.l.k.weight"}, "m");
  EXPECT_EQ(applied(kSplit, {"l.qk.weight"}, head), (Names{"m.l.k.weight", "m.l.q.weight"}));
}

TEST(RuntimeNames, SourcesOfOneConverterMeetUnderTheEditedName) {
  const auto base = RuntimeNames::exactly({"l.qk.weight"}, "m");
  EXPECT_EQ(applied(kFuse, {"m.l.q.weight", "m.l.k.weight"}, base), (Names{"l.qk.weight"}));
}

TEST(RuntimeNames, ANameOfTheModelStaysWhereRenamingItLeavesTheModel) {
  const auto runtime = RuntimeNames::exactly({"enc.a.weight"}, "");
  const char* prefixed =
      R"({"type": "WeightRenaming", "source_patterns": ["^"], "target_patterns": ["enc."]})";
  EXPECT_EQ(applied(prefixed, {"enc.a.weight"}, runtime), (Names{"enc.a.weight"}));
  EXPECT_EQ(applied(prefixed, {"a.weight"}, runtime), (Names{"enc.a.weight"}));
  EXPECT_EQ(applied(prefixed, {"enc.a.weight"}, {}), (Names{"enc.enc.a.weight"}));
}

TEST(RuntimeNames, ANameOfTheModelStaysWhereAConverterWouldLeaveIt) {
  const auto runtime = RuntimeNames::exactly({"l.qk.weight"}, "");
  EXPECT_EQ(applied(kSplit, {"l.qk.weight"}, runtime), (Names{"l.qk.weight"}));
}

TEST(RuntimeNames, ARenamingThatIsTakenBackHasNotFired) {
  const Mapping mapping = Mapping::parse(
      R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [
          {"type": "WeightRenaming", "source_patterns": ["weight_g"], "target_patterns": ["g"]}]})",
      "m.json");
  ApplyOptions options;
  options.runtime = RuntimeNames::exactly({"c.weight_g"}, "");
  const auto result = apply_mapping(mapping, leaves_named({"c.weight_g", "d.weight_g"}, {2}),
                                    ModelConfig(), options);
  EXPECT_EQ(names_of(result), (Names{"c.weight_g", "d.g"}));
  EXPECT_EQ(result.fired, (std::vector<int64_t>{1}));
  EXPECT_EQ(result.passed_through, 1);
}

}  // namespace
}  // namespace weightloom
