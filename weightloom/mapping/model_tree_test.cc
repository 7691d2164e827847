#include "weightloom/mapping/model_tree.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kModels = R"({"format": "weightloom.models/1", "transformers": "0",
"auto": {"AutoModel": {"pair": "Pair", "clip": "ClipModel", "llama": "LlamaModel"}},
"classes": {
"Head": {"model_type": "vlm", "base_model_prefix": "model", "submodels": [{"path": "model", "class": "Vlm"}], "tied": {"lm_head.weight": "model.text.embed.weight"}, "tie_word_embeddings": true, "names": ["lm_head.weight"]},
"Vlm": {"model_type": "vlm", "base_model_prefix": "model", "submodels": [{"path": "vision", "auto": "AutoModel", "config": "vision_config", "model_type": "clip"}, {"path": "text", "auto": "AutoModel", "config": "text_config", "model_type": "llama"}], "names": ["projector.weight"]},
"ClipModel": {"model_type": "clip", "names": ["layers.*.q.weight"], "keep_in_fp32": ["norm"]},
"LlamaModel": {"model_type": "llama", "names": ["embed.weight"], "keep_in_fp32_strict": ["gate"]},
"Twins": {"model_type": "twins", "submodels": [{"path": "left", "class": "ClipModel", "config": "a"}, {"path": "right", "class": "ClipModel", "config": "b"}]},
"Pair": {"model_type": "pair", "submodels": [{"path": "audio", "auto": "AutoModel", "model_type": "clip"}]},
"Opaque": {"model_type": "opaque", "tree": false}
}})";

ModelCatalog catalog() { return ModelCatalog::parse(kModels, "models.json"); }

ModelTree tree_of(const char* architecture, const char* config = R"({"model_type": "vlm"})") {
  return model_tree(catalog(), architecture, ModelConfig::parse(config, "config.json"));
}

Mapping renaming(const std::string& name) {
  return Mapping(name, {WeightRenaming{{name + "_old"}, {name + "_new"}}});
}

Registry registry_of(const std::vector<std::string>& names) {
  Registry registry;
  for (const auto& name : names) registry.add(renaming(name));
  return registry;
}

using Scopes = std::vector<std::pair<std::string, std::string>>;

/// (first source, scope or "-") of each transform.
Scopes scopes_of(const ModelTree& tree, const Registry& registry) {
  Scopes scopes;
  const TreeMapping made = mapping_of(tree, registry);
  for (const auto& transform : made.mapping.transforms()) {
    const TransformForm form = form_of(transform);
    scopes.emplace_back(form.source_patterns.front(), form.scope ? form.scope->prefix : "-");
  }
  return scopes;
}

TEST(ModelTree, WalksDepthFirst) {
  std::vector<std::string> paths;
  for (const auto& node : tree_of("Head").nodes)
    paths.push_back(node.path + ":" + node.model->name);
  EXPECT_THAT(paths,
              ElementsAre(":Head", "model:Vlm", "model.vision:ClipModel", "model.text:LlamaModel"));
}

TEST(ModelTree, TheConfigChoosesTheClassOfASubmodel) {
  const auto tree = tree_of("Vlm", R"({"vision_config": {"model_type": "llama"}})");
  EXPECT_EQ(tree.nodes[1].model->name, "LlamaModel");
  EXPECT_EQ(tree.nodes[1].model_type, "llama");
  EXPECT_EQ(tree.nodes[1].config, "vision_config");
}

TEST(ModelTree, AParentMayMakeAConfigOfAnotherType) {
  const ModelTree tree = tree_of("Pair", R"({"model_type": "pair"})");
  ASSERT_EQ(tree.nodes.size(), 2U);
  EXPECT_EQ(tree.nodes[1].model->name, "ClipModel");
}

TEST(ModelTree, ASubmodelWhoseConfigIsNullIsNotThere) {
  const auto tree = tree_of("Vlm", R"({"vision_config": null})");
  ASSERT_EQ(tree.nodes.size(), 2U);
  EXPECT_EQ(tree.nodes[1].path, "text");
}

TEST(ModelTree, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(tree_of("Vlm", R"({"vision_config": {"model_type": "new"}})").unknown,
              ElementsAre("the sub-model 'vision' (model_type 'new')"));
  EXPECT_THAT(tree_of("Opaque").unknown, ElementsAre("the sub-models of Opaque"));
  EXPECT_THAT(tree_of("Nobody").nodes, IsEmpty());
}

TEST(ModelTree, TheClassGoesBeforeTheModelType) {
  const Registry registry = registry_of({"vlm", "Head"});
  const auto tree = tree_of("Head");
  EXPECT_EQ(mapping_of(tree, registry).label, "Head");
  // A hit by class does not stand in the way of the model_type below.
  EXPECT_THAT(scopes_of(tree, registry), ElementsAre(Pair("Head_old", "-"), Pair("vlm_old", "")));
}

TEST(ModelTree, AModelTypeIsBroughtOnceOnAWayDown) {
  const Registry registry = registry_of({"vlm", "clip"});
  EXPECT_THAT(scopes_of(tree_of("Head"), registry),
              ElementsAre(Pair("vlm_old", "-"), Pair("clip_old", "vision")));
}

TEST(ModelTree, SiblingsBringTheirOwn) {
  const Registry registry = registry_of({"clip"});
  EXPECT_THAT(scopes_of(tree_of("Twins"), registry),
              ElementsAre(Pair("clip_old", "left"), Pair("clip_old", "right")));
}

TEST(ModelTree, ScopesGoWithoutTheBaseModelsPrefix) {
  const auto mapping = mapping_of(tree_of("Head"), registry_of({"llama"})).mapping;
  const auto scope = form_of(mapping.transforms().front()).scope;
  EXPECT_EQ(*scope, (Scope{"text", "model"}));
}

TEST(ModelTree, NothingRegisteredIsPlain) {
  const TreeMapping nothing = mapping_of(tree_of("Head"), {});
  EXPECT_EQ(nothing.label, "plain");
  EXPECT_TRUE(nothing.mapping.empty());
}

TEST(ModelTree, WhatSubmodelsKeepInF32CountsForTheWholeModel) {
  const auto mapping = mapping_of(tree_of("Head"), {}).mapping;
  const auto& rules = mapping.dtype_rules();
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].pattern, "norm");
  EXPECT_THAT(rules[0].when, ElementsAre(DType::F16));
  EXPECT_EQ(rules[1].pattern, "gate");
  EXPECT_THAT(rules[1].when, ElementsAre(DType::F16, DType::BF16));
}

TEST(ModelTree, NamesAreThoseOfAllModels) {
  const RuntimeNames names = names_of(tree_of("Head"));
  for (const char* name : {"lm_head.weight", "model.projector.weight", "model.text.embed.weight",
                           "model.vision.layers.17.q.weight", "model.vision.layers.17.q.bias"}) {
    EXPECT_TRUE(names.has(name)) << name;
  }
  EXPECT_FALSE(names.has("text.embed.weight"));
  EXPECT_EQ(names.base_model_prefix(), "model");
  EXPECT_FALSE(names_of(tree_of("Opaque")).known());
}

TEST(ModelTree, TiedAsTheConfigSaysElseAsTheClassDoes) {
  const auto tied = [](const char* config) {
    return tied_in(tree_of("Head", config), ModelConfig::parse(config, "config.json"));
  };
  EXPECT_THAT(tied("{}").tied, ElementsAre(Pair("lm_head.weight", "model.text.embed.weight")));
  EXPECT_THAT(tied("{}").untied, IsEmpty());
  const auto untied = tied(R"({"tie_word_embeddings": false})");
  EXPECT_THAT(untied.tied, IsEmpty());
  EXPECT_THAT(untied.untied, ElementsAre(Pair("lm_head.weight", "model.text.embed.weight")));
}

void expect_format_refusal(const std::function<void()>& run) {
  const auto refusal = refusal_of(run);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::format);
}

TEST(ModelCatalog, RefusesWhatItDoesNotUnderstand) {
  expect_format_refusal([] { ModelCatalog::parse(R"({"format": "x"})", "m.json"); });
  expect_format_refusal([] { ModelCatalog::parse("{", "m.json"); });
  const auto bad = ModelCatalog::parse(
      R"({"format": "weightloom.models/1", "auto": {}, "classes": {"A": {"submodels": [{"path": "x"}]}}})",
      "m.json");
  expect_format_refusal([&] { bad.find("A"); });
}

}  // namespace
}  // namespace weightloom
