#include "weightloom/mapping/quantised_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using enum DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

ModelConfig config_of(const std::string& json) { return ModelConfig::parse(json, "config.json"); }

std::vector<std::string> names_of(const EncodedTargets& encoded,
                                  const std::vector<TargetTensor>& targets) {
  std::vector<std::string> names;
  for (const EncodedTensor& tensor : encoded.tensors) names.push_back(targets[tensor.target].name);
  return names;
}

/// Each part lies over the values as the codec says.
void expect_parts_fit(const EncodedTensor& tensor) {
  const auto operands = operands_of(tensor.codec);
  EXPECT_TRUE(can_encode(tensor.codec));
  ASSERT_EQ(operands.size(), tensor.parts.size());
  const size_t rank = tensor.coded_shape.size();
  const ValueBox all{0, tensor.coded_shape[rank - 2], 0, tensor.coded_shape[rank - 1]};
  for (size_t i = 0; i < operands.size(); ++i) {
    const EncodedPart& part = tensor.parts[i];
    const ValueBox box = operand_box(operands[i], all);
    ASSERT_EQ(part.shape_over_values.size(), rank);
    EXPECT_EQ(part.shape_over_values[rank - 2], box.rows());
    EXPECT_EQ(part.shape_over_values[rank - 1], box.cols());
    EXPECT_EQ(elements(part.shape_over_values), elements(part.shape));
    EXPECT_EQ(bits(part.dtype), bits(operands[i].dtype));
  }
}

const std::vector<TargetTensor> kDeepSeek = {
    {"lm_head.weight", BF16, {300, 200}},
    {"model.embed_tokens.weight", BF16, {300, 200}},
    {"model.layers.0.input_layernorm.weight", BF16, {200}},
    {"model.layers.0.mlp.experts.down_proj", BF16, {2, 200, 130}},
    {"model.layers.0.mlp.experts.0.up_proj.weight", BF16, {130, 200}},
    {"model.layers.0.mlp.gate.e_score_correction_bias", F32, {2}},
    {"model.layers.0.mlp.gate.weight", BF16, {2, 200}},
    {"model.layers.0.mlp.gate_proj.weight", BF16, {130, 200}},
    {"model.layers.0.mlp.shared_expert_gate.weight", BF16, {1, 200}},
    {"model.layers.0.self_attn.conv1d.weight", BF16, {4, 1, 3}},
    {"model.layers.0.self_attn.ids.weight", I64, {4, 4}},
    {"model.layers.0.self_attn.q_a_layernorm.weight", BF16, {4, 4}},
    {"model.layers.0.self_attn.q_proj.bias", BF16, {130}},
    {"model.layers.0.self_attn.q_proj.weight", BF16, {130, 200}},
    {"model.layers.0.self_attn.relative_attention_bias.weight", BF16, {32, 4}},
    {"model.projector.weight", BF16, {4, 4}},
};

TEST(EncodeTargets, LinearsOfLayersAndStackedExpertsAreFp8InBlocks) {
  const auto encoded = encode_targets(config_of(R"({"model_type": "deepseek_v3"})"), kDeepSeek, {});
  EXPECT_THAT(encoded.findings, IsEmpty());
  EXPECT_THAT(
      names_of(encoded, kDeepSeek),
      ElementsAre("model.layers.0.mlp.experts.down_proj",
                  "model.layers.0.mlp.experts.0.up_proj.weight",
                  "model.layers.0.mlp.gate_proj.weight", "model.layers.0.self_attn.q_proj.weight"));
  const EncodedTensor& stack = encoded.tensors[0];
  EXPECT_EQ(stack.codec.format, BlockFormat::fp8);
  EXPECT_EQ(stack.codec.code_dtype, F8_E4M3);
  EXPECT_EQ(stack.codec.scale_dtype, F32);
  EXPECT_EQ(stack.codec.block_rows, 128);
  EXPECT_EQ(stack.codec.block_cols, 128);
  EXPECT_EQ(stack.coded_shape, (Shape{2, 200, 130}));
  EXPECT_EQ(stack.parts[1].name, "model.layers.0.mlp.experts.down_proj_scale_inv");
  EXPECT_EQ(stack.parts[1].dtype, F32);
  EXPECT_EQ(stack.parts[1].shape, (Shape{2, 2, 2}));
  EXPECT_EQ(encoded.tensors[3].parts[0].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(encoded.tensors[3].parts[0].dtype, F8_E4M3);
  EXPECT_EQ(encoded.tensors[3].parts[0].shape, (Shape{130, 200}));
  EXPECT_EQ(encoded.tensors[3].parts[1].name, "model.layers.0.self_attn.q_proj.weight_scale_inv");
  EXPECT_EQ(encoded.tensors[3].parts[1].shape, (Shape{2, 2}));
  for (const EncodedTensor& tensor : encoded.tensors) expect_parts_fit(tensor);
  EXPECT_EQ(encoded.config,
            R"({"activation_scheme":"dynamic","fmt":"e4m3","modules_to_not_convert":["lm_head",)"
            R"("model.embed_tokens","model.layers.0.mlp.gate",)"
            R"("model.layers.0.mlp.shared_expert_gate","model.layers.0.self_attn.ids",)"
            R"("model.layers.0.self_attn.q_a_layernorm",)"
            R"("model.layers.0.self_attn.relative_attention_bias","model.projector"],)"
            R"("quant_method":"fp8","weight_block_size":[128,128]})");
}

TEST(EncodeTargets, WhatTheConfigAndTheCallerLeaveOutStays) {
  const auto config = config_of(
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 32],
          "modules_to_not_convert": ["model.layers.0.mlp.gate", "q_proj", "model.layers.1.*"]}})");
  EncodeRules rules;
  rules.keep = {"*.down_proj"};
  const auto encoded = encode_targets(config, kDeepSeek, rules);
  EXPECT_THAT(encoded.findings, IsEmpty());
  // "model.layers.0.mlp.gate" is a module, and no beginning of gate_proj.
  EXPECT_THAT(names_of(encoded, kDeepSeek),
              ElementsAre("model.layers.0.mlp.experts.0.up_proj.weight",
                          "model.layers.0.mlp.gate_proj.weight"));
  EXPECT_EQ(encoded.tensors[0].codec.block_rows, 64);
  EXPECT_EQ(encoded.tensors[0].codec.block_cols, 32);
  EXPECT_EQ(encoded.tensors[0].parts[1].shape, (Shape{3, 7}));
  EXPECT_THAT(encoded.config, HasSubstr(R"("model.layers.0.mlp.experts.down_proj",)"));
  EXPECT_THAT(encoded.config, HasSubstr(R"("model.layers.0.self_attn.q_proj",)"));
  EXPECT_THAT(encoded.config, HasSubstr(R"("model.layers.1.*",)"));
  EXPECT_THAT(encoded.config, HasSubstr(R"("weight_block_size":[64,32])"));
}

TEST(EncodeTargets, ARecordNamesExactlyThese) {
  EncodeRules rules;
  rules.names = {"model.projector.weight", "lm_head.weight", "model.projector.weight"};
  const auto encoded = encode_targets(ModelConfig(), kDeepSeek, rules);
  EXPECT_THAT(encoded.findings, IsEmpty());
  EXPECT_THAT(names_of(encoded, kDeepSeek),
              ElementsAre("lm_head.weight", "model.projector.weight"));
  rules.names = {"gone.weight", "model.layers.0.self_attn.ids.weight",
                 "model.layers.0.input_layernorm.weight"};
  const auto refused = encode_targets(ModelConfig(), kDeepSeek, rules);
  EXPECT_THAT(refused.tensors, IsEmpty());
  ASSERT_THAT(refused.findings, SizeIs(3));
  EXPECT_EQ(refused.findings[0].code, "encode_refused");
  EXPECT_EQ(refused.findings[0].message,
            "'gone.weight' is to be quantised, but no target is called so");
  EXPECT_EQ(refused.findings[1].message,
            "'model.layers.0.self_attn.ids.weight' is to be quantised, but is I64");
  EXPECT_EQ(refused.findings[2].message,
            "'model.layers.0.input_layernorm.weight' is [200], but blocks need rows and columns");
}

TEST(EncodeTargets, ListsOfOtherMethodsAreUnderstoodAndNotContradicted) {
  const auto config = config_of(
      R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {},
          "ignore": ["re:.*self_attn", "*experts*", "lm_head", "vision"]}})");
  const auto encoded = encode_targets(config, kDeepSeek, {});
  EXPECT_THAT(names_of(encoded, kDeepSeek), ElementsAre("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_THAT(encoded.config, Not(HasSubstr("re:")));
  EXPECT_THAT(encoded.config, HasSubstr(R"(["lm_head","model.embed_tokens",)"));
  EXPECT_THAT(encoded.config, HasSubstr(R"("vision"])"));
  EncodeRules rules;
  rules.names = {"lm_head.weight"};
  EXPECT_THAT(encode_targets(config, kDeepSeek, rules).config, Not(HasSubstr(R"("lm_head")")));
}

TEST(EncodeTargets, ANameThatIsTakenIsRefused) {
  const std::vector<TargetTensor> targets = {{"l.0.q.weight", BF16, {4, 4}},
                                             {"l.0.q.weight_scale_inv", F32, {1, 1}}};
  const auto encoded = encode_targets(ModelConfig(), targets, {});
  ASSERT_THAT(encoded.findings, SizeIs(1));
  EXPECT_EQ(encoded.findings[0].code, "encode_refused");
  EXPECT_EQ(encoded.findings[0].tensor, "l.0.q.weight_scale_inv");
}

TEST(EncodeTargets, NothingToEncodeIsRefused) {
  const std::vector<TargetTensor> targets = {{"lm_head.weight", BF16, {4, 4}}};
  const auto encoded = encode_targets(ModelConfig(), targets, {});
  ASSERT_THAT(encoded.findings, SizeIs(1));
  EXPECT_EQ(encoded.findings[0].code, "encode_nothing");
}

TEST(EncodeTargets, ABlockThatIsNoneIsRefused) {
  const auto encoded = encode_targets(
      config_of(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}})"),
      kDeepSeek, {});
  ASSERT_THAT(encoded.findings, SizeIs(1));
  EXPECT_EQ(encoded.findings[0].code, "unknown_scheme");
}

TEST(EncodeTargets, GptOssExpertsAreStoredAsBlocksOfTheTranspose) {
  const std::vector<TargetTensor> targets = {
      {"model.layers.0.mlp.experts.gate_up_proj", BF16, {2, 64, 3}},
      {"model.layers.0.mlp.experts.gate_up_proj_bias", BF16, {2, 3}},
      {"model.layers.0.mlp.router.weight", BF16, {2, 64}},
      {"model.layers.0.self_attn.q_proj.weight", BF16, {64, 64}}};
  EncodeRules rules;
  rules.scheme = EncodeScheme::mxfp4;
  const auto encoded = encode_targets(config_of(R"({"model_type": "gpt_oss"})"), targets, rules);
  EXPECT_THAT(encoded.findings, IsEmpty());
  ASSERT_THAT(encoded.tensors, SizeIs(1));
  const EncodedTensor& tensor = encoded.tensors[0];
  expect_parts_fit(tensor);
  EXPECT_EQ(tensor.codec.format, BlockFormat::e2m1);
  EXPECT_EQ(tensor.coded_shape, (Shape{2, 3, 64}));
  EXPECT_EQ(tensor.parts[0].name, "model.layers.0.mlp.experts.gate_up_proj_blocks");
  EXPECT_EQ(tensor.parts[0].shape, (Shape{2, 3, 2, 16}));
  EXPECT_EQ(tensor.parts[1].name, "model.layers.0.mlp.experts.gate_up_proj_scales");
  EXPECT_EQ(tensor.parts[1].shape, (Shape{2, 3, 2}));
  testing::Dense values{{2, 64, 3}, {}};
  for (int64_t i = 0; i < 384; ++i) values.values.push_back(i);
  // [e, out, in] = [e, in, out]: element (1, 2, 5) is 1·192 + 5·3 + 2.
  EXPECT_EQ(testing::gather(tensor.layout, std::vector{values}).values[1 * 192 + 2 * 64 + 5],
            192 + 15 + 2);
  EXPECT_EQ(encoded.config, R"({"modules_to_not_convert":["model.layers.0.mlp.router",)"
                            R"("model.layers.0.self_attn.q_proj"],"quant_method":"mxfp4"})");
}

TEST(EncodeTargets, Mxfp4IsRefusedForOtherModelsAndForPartsOfGroups) {
  EncodeRules rules;
  rules.scheme = EncodeScheme::mxfp4;
  const auto other = encode_targets(config_of(R"({"model_type": "mixtral"})"), kDeepSeek, rules);
  ASSERT_THAT(other.findings, SizeIs(1));
  EXPECT_EQ(other.findings[0].code, "unknown_scheme");
  EXPECT_THAT(other.findings[0].message, HasSubstr("'mixtral'"));
  const std::vector<TargetTensor> targets = {{"l.0.experts.down_proj", BF16, {2, 40, 3}}};
  const auto ragged = encode_targets(config_of(R"({"model_type": "gpt_oss"})"), targets, rules);
  ASSERT_THAT(ragged.findings, SizeIs(1));
  EXPECT_EQ(ragged.findings[0].code, "encode_refused");
  EXPECT_THAT(ragged.findings[0].message, HasSubstr("[2, 40, 3]"));
}

}  // namespace
}  // namespace weightloom
