#include "weightloom/sharding/model_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using enum ParallelStyle;

// A head over a base model with vision and text towers, and a drafter in a list.
constexpr const char* kModels =
    R"({"format": "weightloom.models/1", "transformers": "0", "auto": {},
"classes": {
"Head": {"model_type": "vlm", "base_model_prefix": "model", "submodels": [{"path": "model", "class": "Vlm"}], "names": ["lm_head.weight"]},
"Vlm": {"model_type": "vlm", "base_model_prefix": "model", "submodels": [{"path": "vision", "class": "Vision", "config": "vision_config"}, {"path": "text", "class": "Text", "config": "text_config"}, {"path": "drafts.*", "class": "Text", "config": "text_config"}], "names": ["projector.weight"]},
"Vision": {"model_type": "vision", "names": ["layers.*.q.weight"]},
"Text": {"model_type": "text", "base_model_prefix": "model", "names": ["embed_tokens.weight", "layers.*.q.weight"]},
"Bare": {"model_type": "bare", "names": ["embed_tokens.weight"]},
"Named": {"model_type": "named", "names": ["embed_tokens.weight"]},
"Opaque": {"model_type": "text", "tree": false}}})";
constexpr const char* kPlans = R"({"format": "weightloom.parallel_plans/1", "transformers": "0",
"configs": {
"text": {"tp": {"layers.*.q": "colwise"}, "ep": {"layers.*.experts": "ep_dispatch_experts"}},
"vlm": {"tp": {"projector": "rowwise", "text.layers.*.q": "replicate"}},
"named": {"tp": {"embed_tokens": "embedding_colwise"}}},
"classes": {"Head": {"tp": {"lm_head": "colwise_gather_output"}}}})";

TpPlan plan_of(const char* architecture) {
  const ModelTree tree = model_tree(ModelCatalog::parse(kModels, "models.json"), architecture,
                                    ModelConfig::parse("{}", "config.json"));
  return tp_plan_of(tree, ParallelPlans::parse(kPlans, "plans.json"));
}

TpPlan shipped_plan_of(const char* architecture) {
  const ModelTree tree =
      model_tree(ModelCatalog::built_in(), architecture, ModelConfig::parse("{}", "config.json"));
  return tp_plan_of(tree);
}

TEST(ModelPlansTest, ABaseModelHasItsConfigsRulesAndItsEmbeddings) {
  EXPECT_THAT(plan_of("Text").tp,
              ElementsAre(Pair("embed_tokens", embedding_rowwise), Pair("layers.*.q", colwise)));
  EXPECT_THAT(plan_of("Text").ep, ElementsAre(Pair("layers.*.experts", ep_dispatch_experts)));
}

TEST(ModelPlansTest, EmbeddingsHaveARuleOfTheirOwnOrNone) {
  EXPECT_THAT(plan_of("Bare").tp, IsEmpty());
  EXPECT_THAT(plan_of("Named").tp, ElementsAre(Pair("embed_tokens", embedding_colwise)));
}

TEST(ModelPlansTest, AHeadPutsPrefixesBeforeTheRulesOfWhatItHolds) {
  // The text model's own rule wins over the one that its holder has for it. The drafters stand in
  // a list, and the vision model has no rules.
  EXPECT_THAT(plan_of("Head").tp,
              ElementsAre(Pair("lm_head", colwise_gather_output), Pair("model.projector", rowwise),
                          Pair("model.text.embed_tokens", embedding_rowwise),
                          Pair("model.text.layers.*.q", colwise)));
  EXPECT_THAT(plan_of("Head").ep,
              ElementsAre(Pair("model.text.layers.*.experts", ep_dispatch_experts)));
}

TEST(ModelPlansTest, AModelThatIsNotKnownHasNoKnownPlan) {
  const auto opaque = refusal_of([] { plan_of("Opaque"); });
  ASSERT_TRUE(opaque);
  EXPECT_EQ(opaque->code(), ErrorCode::unsupported);
  EXPECT_THAT(opaque->what(), HasSubstr("the sub-models of Opaque"));
  EXPECT_THAT(opaque->next_step(), HasSubstr("--tp-plan FILE"));
  EXPECT_TRUE(refusal_of([] { plan_of("Stranger"); }));
}

TEST(ModelPlansTest, WhatIsWrongInTheFileIsNamed) {
  const auto says = [](const char* json) {
    const auto refusal = refusal_of([&] { ParallelPlans::parse(json, "plans.json"); });
    return refusal ? std::string(refusal->what()) : "";
  };
  EXPECT_THAT(says(R"({"format": "other", "configs": {}, "classes": {}})"), HasSubstr("'other'"));
  EXPECT_EQ(says(R"({"format": "weightloom.parallel_plans/1", "classes": {},
                     "configs": {"a": {"tp": {"q": "colwize"}}}})"),
            "plans.json: a: tp: 'q': there is no parallel style 'colwize'");
}

// As modeling_mixtral.py, configuration_mixtral.py and configuration_llama.py have them.
TEST(ModelPlansTest, ShippedPlansAreThoseOfTransformers) {
  const TpPlan mixtral = shipped_plan_of("MixtralForCausalLM");
  EXPECT_EQ(mixtral.tp.at("lm_head"), colwise_gather_output);
  EXPECT_EQ(mixtral.tp.at("model.embed_tokens"), embedding_rowwise);
  EXPECT_EQ(mixtral.tp.at("model.layers.*.mlp.experts.gate_up_proj"), packed_colwise);
  EXPECT_EQ(mixtral.ep.at("model.layers.*.mlp.experts.gate_up_proj"), grouped_gemm);
  EXPECT_EQ(shipped_plan_of("LlamaModel").tp.at("layers.*.self_attn.o_proj"), rowwise);
  EXPECT_THAT(shipped_plan_of("LlamaModel").ep, IsEmpty());
  EXPECT_THAT(shipped_plan_of("BertModel").tp, IsEmpty());
}

}  // namespace
}  // namespace weightloom::testing
