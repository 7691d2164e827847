// Which rules a conversion goes by: registered, legacy, of a folder, of a class; and which of them
// it takes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;

class RulesTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  Conversion plan(const Folder& files, const Selection& selection,
                  const Registry& registry = Registry::built_in()) const {
    remove_all(system_calls(), at("m"));
    write_folder(at("m"), files);
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m")), selection,
                           registry);
  }

  TemporaryFolder folder_;
};

Folder named(const Names& names, const std::string& config) {
  std::vector<TensorSpec> specs;
  for (const auto& name : names) specs.push_back({name, DType::U8, {2}});
  Folder files = checkpoint_files(specs);
  files["config.json"] = config;
  return files;
}

Selection to(Side side) {
  Selection selection;
  selection.to = side;
  return selection;
}

Names names_of(const Conversion& conversion) {
  Names names;
  for (const auto& target : conversion.program.targets()) names.push_back(target.name);
  return names;
}

constexpr const char* kBert = R"({"model_type": "bert"})";

TEST_F(RulesTest, OldNamesAreUnderstoodForEveryModel) {
  const Conversion conversion =
      plan(named({"a.LayerNorm.beta", "a.LayerNorm.gamma", "b.weight_g", "b.weight_v", "c.weight"},
                 kBert),
           to(Side::runtime));
  EXPECT_THAT(names_of(conversion), ElementsAre("a.LayerNorm.bias", "a.LayerNorm.weight",
                                                "b.parametrizations.weight.original0",
                                                "b.parametrizations.weight.original1", "c.weight"));
  EXPECT_EQ(conversion.mapping, "plain");
  EXPECT_THAT(conversion.provenance.fired, ElementsAre(0, 1, 2, 3));
}

TEST_F(RulesTest, OldAndNewNameOfOneTensorAreADuplicate) {
  const Conversion conversion =
      plan(named({"a.LayerNorm.gamma", "a.LayerNorm.weight"}, kBert), to(Side::runtime));
  ASSERT_FALSE(conversion.findings.empty());
  EXPECT_EQ(conversion.findings[0].code, "duplicate_target");
}

TEST_F(RulesTest, OldNamesComeBackWhenTheyFired) {
  const Folder hub = named({"a.LayerNorm.gamma", "b.LayerNorm.bias"}, kBert);
  Provenance record = plan(hub, to(Side::runtime)).provenance;
  record.files.clear();  // by rule, not by the files as they were
  Folder runtime = named({"a.LayerNorm.weight", "b.LayerNorm.bias"}, kBert);
  runtime["weightloom.json"] = format_provenance(record);
  EXPECT_THAT(names_of(plan(runtime, to(Side::hub))),
              ElementsAre("a.LayerNorm.gamma", "b.LayerNorm.bias"));
}

TEST_F(RulesTest, WithoutARecordOldNamesAreNotMadeUp) {
  const Conversion conversion = plan(named({"a.LayerNorm.weight"}, kBert), to(Side::hub));
  EXPECT_THAT(names_of(conversion), ElementsAre("a.LayerNorm.weight"));
}

TEST_F(RulesTest, NoneKeepsOldNames) {
  Selection selection = to(Side::runtime);
  selection.mapping = "none";
  EXPECT_THAT(names_of(plan(named({"a.LayerNorm.gamma"}, kBert), selection)),
              ElementsAre("a.LayerNorm.gamma"));
}

/// A registry in which a model type and one of its classes have rules.
Registry of_class_and_type() {
  Registry registry;
  registry.register_checkpoint_conversion_mapping(
      "mine", {WeightRenaming{{"^x"}, {"type.x"}}, PrefixChange{"", "wrapped"}});
  registry.register_checkpoint_conversion_mapping("MineForOther",
                                                  {WeightRenaming{{"^x"}, {"class.x"}}});
  return registry;
}

constexpr const char* kMine = R"({"model_type": "mine", "architectures": ["MineModel"]})";
constexpr const char* kOther = R"({"model_type": "mine", "architectures": ["MineForOther"]})";

TEST_F(RulesTest, AClassGoesBeforeItsModelType) {
  const Registry registry = of_class_and_type();
  EXPECT_THAT(names_of(plan(named({"x.w"}, kMine), to(Side::runtime), registry)),
              ElementsAre("type.x.w"));
  EXPECT_THAT(names_of(plan(named({"x.w"}, kOther), to(Side::runtime), registry)),
              ElementsAre("class.x.w"));
}

TEST_F(RulesTest, TheClassWantedGoesBeforeThatOfTheConfig) {
  Selection selection = to(Side::runtime);
  selection.architecture = "MineForOther";
  EXPECT_THAT(names_of(plan(named({"x.w"}, kMine), selection, of_class_and_type())),
              ElementsAre("class.x.w"));
}

TEST_F(RulesTest, WithoutARecordPrefixesStay) {
  Selection back = to(Side::hub);
  back.from = Side::runtime;
  EXPECT_THAT(names_of(plan(named({"type.x.w", "y.w"}, kMine), back, of_class_and_type())),
              ElementsAre("x.w", "y.w"));
}

TEST_F(RulesTest, WithARecordPrefixesThatWereTakenOffArePutBack) {
  const Registry registry = of_class_and_type();
  const Conversion there = plan(named({"wrapped.y.w", "x.w"}, kMine), to(Side::runtime), registry);
  EXPECT_THAT(names_of(there), ElementsAre("type.x.w", "y.w"));
  Folder runtime = named({"type.x.w", "y.w"}, kMine);
  runtime["weightloom.json"] = format_provenance(there.provenance);
  EXPECT_THAT(names_of(plan(runtime, to(Side::hub), registry)), ElementsAre("wrapped.y.w", "x.w"));
}

constexpr const char* kFolderMapping =
    R"({"format": "weightloom.mapping/1", "name": "bert", "transforms": [
        {"type": "WeightRenaming", "source_patterns": ["^old"], "target_patterns": ["new"]}]})";

TEST_F(RulesTest, AFolderOfMappingsGoesBeforeTheShippedOnes) {
  write_folder(at("mappings"), {{"b.json", kFolderMapping}, {"notes.txt", "no mapping"}});
  Selection selection = to(Side::runtime);
  selection.mapping = at("mappings");
  const Conversion conversion = plan(named({"old.w"}, kBert), selection);
  EXPECT_THAT(names_of(conversion), ElementsAre("new.w"));
  EXPECT_EQ(conversion.mapping, "bert");
}

TEST_F(RulesTest, AFolderWithoutMappingsOrWithTwoOfANameIsRefused) {
  Selection selection = to(Side::runtime);
  selection.mapping = at("mappings");
  write_folder(at("mappings"), {{"notes.txt", "no mapping"}});
  EXPECT_THAT(refusal_of([&] { plan(named({"old.w"}, kBert), selection); }).value().what(),
              HasSubstr("mappings: there is no mapping file in it"));
  write_folder(at("mappings"), {{"a.json", kFolderMapping}, {"b.json", kFolderMapping}});
  EXPECT_THAT(refusal_of([&] { plan(named({"old.w"}, kBert), selection); }).value().what(),
              HasSubstr("b.json: another file of"));
}

/// Elements, not regions, are compared: the parts of the odd cut do not line up with the halves.
TEST_F(RulesTest, ACutThatDoesNotLineUpIsStillProvenToComeBack) {
  Registry registry;
  registry.register_checkpoint_conversion_mapping(
      "mine", {WeightConverter{
                  {"x.w"}, {"a.w", "b.w", "c.w"}, {make_interleave(0, false), make_chunk(0)}}});
  Folder runtime = checkpoint_files(
      {{"a.w", DType::F32, {4}}, {"b.w", DType::F32, {4}}, {"c.w", DType::F32, {4}}});
  runtime["config.json"] = kMine;
  const Conversion back = plan(runtime, to(Side::hub), registry);
  EXPECT_THAT(back.findings, IsEmpty());
  EXPECT_THAT(names_of(back), ElementsAre("x.w"));
}

/// A layer as a mapping's checkpoints have it, by model type.
std::vector<TensorSpec> hub_layer(const std::string& model_type) {
  if (model_type == "mixtral") return hub_specs();
  const bool is_moe = model_type == "qwen2_moe" || model_type == "longcat_flash";
  std::vector<TensorSpec> specs{{"model.norm.weight", DType::F32, {3}}};
  for (int expert = 0; is_moe && expert < 12; ++expert) {
    const std::string name = "model.layers.0.mlp.experts." + std::to_string(expert) + ".";
    specs.push_back({name + "gate_proj.weight", DType::BF16, {2, 3}});
    specs.push_back({name + "up_proj.weight", DType::BF16, {2, 3}});
    specs.push_back({name + "down_proj.weight", DType::BF16, {3, 2}});
  }
  if (model_type == "legacy") specs.push_back({"a.LayerNorm.gamma", DType::F32, {3}});
  return specs;
}

class ShippedMapping : public RulesTest, public ::testing::WithParamInterface<std::string> {};

/// The rules alone lead there and back, and the way back is proven before it is taken.
TEST_P(ShippedMapping, IsUndoneByItsReverse) {
  const auto hub = hub_layer(GetParam());
  Selection selection = to(Side::runtime);
  selection.mapping = GetParam();
  selection.from = Side::hub;
  const Conversion there = plan(checkpoint_files(hub), selection);
  ASSERT_THAT(there.findings, IsEmpty());
  EXPECT_GT(there.provenance.fired.size(), 0u);
  std::vector<TensorSpec> runtime;
  for (const auto& target : there.program.targets()) {
    runtime.push_back({target.name, target.dtype, target.shape});
  }
  selection.from = Side::runtime;
  selection.to = Side::hub;
  const Conversion back = plan(checkpoint_files(runtime), selection);
  EXPECT_THAT(back.findings, IsEmpty());
  Names names;
  for (const auto& spec : hub) names.push_back(spec.name);
  std::ranges::sort(names);
  EXPECT_EQ(names_of(back), names);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedMapping,
                         ::testing::Values("legacy", "longcat_flash", "mixtral", "qwen2_moe"));

/// A copy of a runtime folder knows no more of its past than the folder did.
TEST_F(RulesTest, ACopyWithoutARecordStillGoesBackByTheRules) {
  Folder runtime =
      checkpoint_files({{"model.layers.0.mlp.experts.down_proj", DType::U8, {2, 3, 1}}});
  runtime["config.json"] = R"({"model_type": "mixtral", "num_local_experts": 2})";
  const Conversion copy = plan(runtime, Selection());
  EXPECT_EQ(copy.provenance.layout, "unknown");
  runtime["weightloom.json"] = format_provenance(copy.provenance);
  EXPECT_THAT(names_of(plan(runtime, to(Side::hub))),
              ElementsAre("model.layers.0.block_sparse_moe.experts.0.w2.weight",
                          "model.layers.0.block_sparse_moe.experts.1.w2.weight"));
}

/// A part of a runtime folder remembers which rules fired, but not files that it does not hold.
TEST_F(RulesTest, APartKeepsWhatTheRecordSays) {
  Folder hub = checkpoint_files(hub_specs());
  hub["config.json"] = R"({"model_type": "mixtral", "num_local_experts": 2})";
  const Conversion there = plan(hub, to(Side::runtime));
  std::vector<TensorSpec> specs;
  for (const auto& target : there.program.targets()) {
    specs.push_back({target.name, target.dtype, target.shape});
  }
  Folder runtime = checkpoint_files(specs);
  runtime["config.json"] = hub["config.json"];
  runtime["weightloom.json"] = format_provenance(there.provenance);
  Selection part;
  part.include = {"*down_proj"};
  const Provenance record = plan(runtime, part).provenance;
  EXPECT_EQ(record.layout, "runtime");
  EXPECT_EQ(record.fired, there.provenance.fired);
  EXPECT_THAT(record.files, IsEmpty());
}

/// A scheme whose codes are called `….codes`; its checkpoints have new names only.
Registry with_packed_scheme() {
  Registry registry = Registry::built_in();
  Quantiser quantiser;
  quantiser.weight_conversions = [](const ModelConfig&) {
    return Mapping::parse(R"({"format": "weightloom.mapping/1", "name": "q", "transforms": [
             {"type": "WeightRenaming", "source_patterns": ["\\.codes$"],
              "target_patterns": [".weight"]}]})",
                          "q.json")
        .transforms();
  };
  quantiser.update_weight_conversions = [](std::vector<WeightTransform> transforms,
                                           const ModelConfig& config) {
    if (config.has("quantization_config.old_names")) return transforms;
    return std::vector<WeightTransform>{transforms.back()};
  };
  registry.add_quantiser("packed9", quantiser);
  return registry;
}

constexpr const char* kPackedBert =
    R"({"model_type": "bert", "quantization_config": {"quant_method": "packed9"}})";
constexpr const char* kPackedOldBert =
    R"({"model_type": "bert", "quantization_config": {"quant_method": "packed9", "old_names": 1}})";

TEST_F(RulesTest, AQuantiserOfTheSchemeAddsRulesAndRewritesAllOfThem) {
  const Registry registry = with_packed_scheme();
  const Names names{"a.codes", "b.LayerNorm.gamma"};
  EXPECT_THAT(names_of(plan(named(names, kPackedBert), to(Side::runtime), registry)),
              ElementsAre("a.weight", "b.LayerNorm.gamma"));
  EXPECT_THAT(names_of(plan(named(names, kPackedOldBert), to(Side::runtime), registry)),
              ElementsAre("a.weight", "b.LayerNorm.weight"));
}

TEST_F(RulesTest, AQuantiserOfAnotherSchemeDoesNothing) {
  const Registry registry = with_packed_scheme();
  EXPECT_THAT(names_of(plan(named({"a.codes"}, kBert), to(Side::runtime), registry)),
              ElementsAre("a.codes"));
  EXPECT_THAT(names_of(plan(named({"a.codes"}, kPackedBert), to(Side::runtime))),
              ElementsAre("a.codes"));
  Selection selection = to(Side::runtime);
  selection.mapping = "none";
  EXPECT_THAT(names_of(plan(named({"a.codes"}, kPackedBert), selection, registry)),
              ElementsAre("a.codes"));
}

TEST_F(RulesTest, WhatAQuantiserAddedIsInTheRecordAndGoesBackWithoutIt) {
  Provenance record =
      plan(named({"a.codes", "b.bias"}, kPackedBert), to(Side::runtime), with_packed_scheme())
          .provenance;
  record.files.clear();  // by rule, not by the files as they were
  Folder runtime = named({"a.weight", "b.bias"}, kPackedBert);
  runtime["weightloom.json"] = format_provenance(record);
  EXPECT_THAT(names_of(plan(runtime, to(Side::hub))), ElementsAre("a.codes", "b.bias"));
  EXPECT_THAT(names_of(plan(runtime, to(Side::hub), with_packed_scheme())),
              ElementsAre("a.codes", "b.bias"));
}

TEST_F(RulesTest, AFolderWithAnAliasThatIsANameIsRefused) {
  constexpr const char* kAlias =
      R"({"format": "weightloom.mapping/1", "name": "other", "aliases": ["bert"], "transforms": []})";
  write_folder(at("mappings"), {{"a.json", kFolderMapping}, {"b.json", kAlias}});
  Selection selection = to(Side::runtime);
  selection.mapping = at("mappings");
  EXPECT_THAT(refusal_of([&] { plan(named({"old.w"}, kBert), selection); }).value().what(),
              HasSubstr("'bert' is taken by mapping 'bert'"));
}

}  // namespace
}  // namespace weightloom::testing
