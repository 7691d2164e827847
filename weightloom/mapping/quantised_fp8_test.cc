#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/quantised_testing.h"

namespace weightloom {
namespace {

using enum DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::quantised_by;
using testing::QuantisedCase;
using ::testing::SizeIs;

const std::string kBlocks = quantised_by(R"({"quant_method": "fp8", "weight_block_size": [128, 128],
                     "modules_to_not_convert": ["lm_head"]})");
const std::string kUndeclared =
    quantised_by(R"({"quant_method": "fp8", "weight_block_size": null})");

void expect_block(const QuantisedTensor& tensor, int64_t rows, int64_t cols) {
  EXPECT_EQ(tensor.codec.format, BlockFormat::fp8);
  EXPECT_EQ(tensor.codec.block_rows, rows);
  EXPECT_EQ(tensor.codec.block_cols, cols);
}

TEST(QuantisedFp8, BlocksAreThoseDeclaredAndTheLastOnesAreRagged) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("a.weight_scale_inv", F32, {2, 2})
                              .add("norm.weight", BF16, {200})
                              .add("a.weight", F8_E4M3, {130, 200});
  const auto found = c.find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.name, "a.weight");
  expect_block(tensor, 128, 128);
  EXPECT_EQ(tensor.codec.code_dtype, F8_E4M3);
  EXPECT_EQ(tensor.codec.scale_dtype, F32);
  EXPECT_EQ(tensor.codec.global_scale, GlobalScale::none);
  EXPECT_EQ(tensor.coded_shape, (Shape{130, 200}));
  EXPECT_EQ(tensor.layout.shape(), (Shape{130, 200}));
  ASSERT_THAT(tensor.operands, SizeIs(2));
  EXPECT_EQ(tensor.operands[0].place, 2U);
  EXPECT_EQ(tensor.operands[0].shape, (Shape{130, 200}));
  EXPECT_EQ(tensor.operands[1].place, 0U);
  EXPECT_EQ(tensor.operands[1].shape, (Shape{2, 2}));
  EXPECT_FALSE(tensor.operands[1].is_made);
  EXPECT_THAT(found.consumed, ElementsAre(true, false, true));
}

TEST(QuantisedFp8, ScalesGoByAllTheNamesOfTheField) {
  for (const char* scale : {"m.weight_scale_inv", "m.weight_scale", "m.scale", "m.scale_inv",
                            "m.scale_weight", "m.qscale_weight"}) {
    const auto found =
        QuantisedCase(kBlocks).add("m.weight", F8_E4M3, {128, 128}).add(scale, F32, {1, 1}).find();
    EXPECT_THAT(found.findings, IsEmpty()) << scale;
    ASSERT_THAT(found.tensors, SizeIs(1)) << scale;
    EXPECT_THAT(found.consumed, ElementsAre(true, true)) << scale;
  }
  for (const char* scale : {"e.gate_up_proj_scale_inv", "e.gate_up_proj_scale"}) {
    const auto found = QuantisedCase(kBlocks)
                           .add("e.gate_up_proj", F8_E5M2, {3, 130, 128})
                           .add(scale, BF16, {3, 2, 1})
                           .find();
    EXPECT_THAT(found.findings, IsEmpty()) << scale;
    ASSERT_THAT(found.tensors, SizeIs(1)) << scale;
    EXPECT_EQ(found.tensors[0].coded_shape, (Shape{3, 130, 128}));
    EXPECT_EQ(found.tensors[0].operands[1].shape, (Shape{3, 2, 1}));
    EXPECT_EQ(found.tensors[0].codec.code_dtype, F8_E5M2);
    EXPECT_EQ(found.tensors[0].codec.scale_dtype, BF16);
  }
}

TEST(QuantisedFp8, ScalesOfBytesAreExponents) {
  for (const DType stored : {U8, F8_E8M0}) {
    const auto found =
        QuantisedCase(quantised_by(R"({"quant_method": "fp8", "weight_block_size": [1, 32]})"))
            .add("m.weight", F8_E4M3, {5, 70})
            .add("m.weight_scale_inv", stored, {5, 3})
            .find();
    EXPECT_THAT(found.findings, IsEmpty());
    ASSERT_THAT(found.tensors, SizeIs(1));
    EXPECT_EQ(found.tensors[0].codec.scale_dtype, F8_E8M0);
    expect_block(found.tensors[0], 1, 32);
  }
}

TEST(QuantisedFp8, Mxfp8IsInBlocksOf32WithoutAWord) {
  const auto found = QuantisedCase(quantised_by(R"({"quant_method": "mxfp8"})"))
                         .add("m.weight", F8_E4M3, {4, 64})
                         .add("m.weight_scale_inv", U8, {4, 2})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  expect_block(found.tensors[0], 1, 32);
}

TEST(QuantisedFp8, WithoutADeclaredBlockTheShapeOfTheScaleSaysWhatSharesIt) {
  struct Case {
    Shape scale;
    int64_t rows;
    int64_t cols;
    Shape seen;
  };
  const Case cases[] = {{{}, kEntireDim, kEntireDim, {1, 1}},
                        {{1}, kEntireDim, kEntireDim, {1, 1}},
                        {{1, 1}, kEntireDim, kEntireDim, {1, 1}},
                        {{6}, 1, kEntireDim, {6, 1}},
                        {{6, 1}, 1, kEntireDim, {6, 1}}};
  for (const std::string& config : {kUndeclared, std::string("{}"), std::string()}) {
    for (const Case& one : cases) {
      const auto found = QuantisedCase(config)
                             .add("m.weight", F8_E4M3, {6, 4})
                             .add("m.weight_scale", F32, one.scale)
                             .find();
      EXPECT_THAT(found.findings, IsEmpty());
      ASSERT_THAT(found.tensors, SizeIs(1));
      expect_block(found.tensors[0], one.rows, one.cols);
      EXPECT_EQ(found.tensors[0].coded_shape, (Shape{6, 4}));
      EXPECT_EQ(found.tensors[0].operands[1].shape, one.seen);
    }
  }
}

TEST(QuantisedFp8, OfAStackTheSameByMatrix) {
  struct Case {
    Shape scale;
    int64_t rows;
    Shape coded;
    Shape seen;
  };
  const Case cases[] = {{{}, kEntireDim, {12, 4}, {1, 1}},
                        {{2}, kEntireDim, {2, 6, 4}, {2, 1, 1}},
                        {{2, 1, 1}, kEntireDim, {2, 6, 4}, {2, 1, 1}},
                        {{2, 6}, 1, {2, 6, 4}, {2, 6, 1}},
                        {{2, 6, 1}, 1, {2, 6, 4}, {2, 6, 1}}};
  for (const Case& one : cases) {
    const auto found = QuantisedCase(kUndeclared)
                           .add("e.down_proj", F8_E4M3, {2, 6, 4})
                           .add("e.down_proj_scale", F32, one.scale)
                           .find();
    EXPECT_THAT(found.findings, IsEmpty());
    ASSERT_THAT(found.tensors, SizeIs(1));
    expect_block(found.tensors[0], one.rows, kEntireDim);
    EXPECT_EQ(found.tensors[0].coded_shape, one.coded);
    EXPECT_EQ(found.tensors[0].operands[0].shape, one.coded);
    EXPECT_EQ(found.tensors[0].operands[1].shape, one.seen);
    EXPECT_EQ(found.tensors[0].layout.shape(), (Shape{2, 6, 4}));
  }
}

TEST(QuantisedFp8, FbgemmsExpertsHaveAScaleForEachColumn) {
  const auto leaves = [](const char* method) {
    return QuantisedCase(quantised_by(std::string(R"({"quant_method": ")") + method + "\"}"))
        .add("e.gate_up_proj", F8_E4M3, {2, 6, 4})
        .add("e.gate_up_proj_scale", F32, {2, 1, 4});
  };
  const auto found = leaves("fbgemm_fp8").find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  expect_block(found.tensors[0], kEntireDim, 1);
  EXPECT_THAT(leaves("fp8").codes(), ElementsAre("unknown_scheme"));
}

TEST(QuantisedFp8, AVectorIsOneRow) {
  const auto found =
      QuantisedCase(kUndeclared).add("m.bias", F8_E4M3, {5}).add("m.bias_scale", F32, {}).find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].coded_shape, (Shape{1, 5}));
  EXPECT_EQ(found.tensors[0].layout.shape(), (Shape{5}));
}

TEST(QuantisedFp8, AGridThatDoesNotFitIsRefusedWithBothShapes) {
  const auto found =
      QuantisedCase(kBlocks).add("x", F8_E4M3, {130, 200}).add("x_scale_inv", F32, {1, 2}).find();
  EXPECT_THAT(found.tensors, IsEmpty());
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "scale_grid");
  EXPECT_EQ(found.findings[0].tensor, "x_scale_inv");
  EXPECT_EQ(found.findings[0].severity, Severity::error);
  EXPECT_EQ(found.findings[0].message,
            "'x_scale_inv' is [1, 2], but 'x' [130, 200] in blocks of [128, 128] needs [2, 2]");
}

/// 192 rows with 2 scales are blocks of 128 and 64, not two of 96.
TEST(QuantisedFp8, TheBlockIsNeverDerivedFromTheGrid) {
  const auto fits = QuantisedCase(kBlocks)
                        .add("m.weight", F8_E4M3, {192, 128})
                        .add("m.weight_scale_inv", F32, {2, 1})
                        .find();
  ASSERT_THAT(fits.tensors, SizeIs(1));
  expect_block(fits.tensors[0], 128, 128);
  const QuantisedCase scalar = QuantisedCase(kBlocks)
                                   .add("m.weight", F8_E4M3, {192, 128})
                                   .add("m.weight_scale_inv", F32, {});
  EXPECT_THAT(scalar.codes(), ElementsAre("scale_grid"));
}

TEST(QuantisedFp8, AGridWithoutADeclaredBlockIsRefused) {
  const auto found = QuantisedCase()
                         .add("m.weight", F8_E4M3, {256, 256})
                         .add("m.weight_scale_inv", F32, {2, 2})
                         .find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "unknown_scheme");
  EXPECT_THAT(found.findings[0].message,
              HasSubstr("config.json does not declare weight_block_size"));
  const QuantisedCase vector =
      QuantisedCase().add("m.weight", F8_E4M3, {6, 4}).add("m.weight_scale", F32, {3});
  EXPECT_THAT(vector.codes(), ElementsAre("scale_grid"));
}

TEST(QuantisedFp8, CodesWithoutAScaleAreRefusedAlsoInModulesThatAreNotConverted) {
  const auto found = QuantisedCase(kBlocks)
                         .add("lm_head.weight", F8_E4M3, {4, 4})
                         .add("m.weight", F8_E5M2, {4, 4})
                         .find();
  EXPECT_THAT(found.tensors, IsEmpty());
  ASSERT_THAT(found.findings, SizeIs(2));
  EXPECT_EQ(found.findings[0].code, "scale_missing");
  EXPECT_EQ(found.findings[0].tensor, "lm_head.weight");
  EXPECT_THAT(found.findings[0].message, HasSubstr("'lm_head.weight' is F8_E4M3"));
  EXPECT_THAT(found.findings[0].message, HasSubstr("lm_head.weight_scale_inv"));
  EXPECT_EQ(found.findings[1].tensor, "m.weight");
}

TEST(QuantisedFp8, TwoScalesOfOneTensorAreRefused) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("m.weight", F8_E4M3, {4, 4})
                              .add("m.weight_scale_inv", F32, {1, 1})
                              .add("m.scale", F32, {1, 1});
  const auto found = c.find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "unknown_companion");
  EXPECT_EQ(found.findings[0].message,
            "'m.weight_scale_inv' and 'm.scale' both stand for the scale of 'm.weight'");
}

TEST(QuantisedFp8, AScaleThatIsNoScaleIsRefused) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("m.weight", F8_E4M3, {4, 4})
                              .add("m.weight_scale_inv", I32, {1, 1});
  const auto found = c.find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "unknown_companion");
  EXPECT_EQ(found.findings[0].message,
            "'m.weight_scale_inv' is I32, but beside 'm.weight' it must be F32, BF16, F16, "
            "F8_E8M0, U8");
}

TEST(QuantisedFp8, AScaleWithoutCodesIsRefused) {
  const auto found = QuantisedCase(kBlocks)
                         .add("a.weight_scale_inv", F32, {1, 1})
                         .add("b.weight", BF16, {4, 4})
                         .add("b.weight_scale", F32, {1})
                         .find();
  ASSERT_THAT(found.findings, SizeIs(2));
  EXPECT_EQ(found.findings[0].code, "scale_alone");
  EXPECT_EQ(found.findings[0].message,
            "'a.weight_scale_inv' is named like a companion of 'a.weight', which is not there");
  EXPECT_EQ(found.findings[1].code, "scale_alone");
  EXPECT_EQ(found.findings[1].message,
            "'b.weight_scale' is named like a companion of 'b.weight', which is BF16 and has no "
            "codes");
}

TEST(QuantisedFp8, PlainTensorsThatAreCalledScaleStay) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("router.per_expert_scale", BF16, {8})
                              .add("q_l2_clip.scale", BF16, {8})
                              .add("norm.weight", BF16, {8})
                              .add("norm.scale", BF16, {8})
                              .add("logit_scale", F32, {});
  EXPECT_THAT(c.codes(), IsEmpty());
  EXPECT_THAT(c.taken(), IsEmpty());
}

TEST(QuantisedFp8, ACompanionThatTheSchemeDoesNotKnowIsRefused) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("m.weight", F8_E4M3, {4, 4})
                              .add("m.weight_scale_inv", F32, {1, 1})
                              .add("m.weight_zero_point", I8, {1, 1});
  const auto found = c.find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "unknown_companion");
  EXPECT_EQ(found.findings[0].tensor, "m.weight_zero_point");
}

TEST(QuantisedFp8, ScalesOfActivationsAreLeftOutWithOneReport) {
  const QuantisedCase c = QuantisedCase(kBlocks)
                              .add("m.weight", F8_E4M3, {4, 4})
                              .add("m.weight_scale_inv", F32, {1, 1})
                              .add("m.activation_scale", F32, {1})
                              .add("m.input_scale", F32, {})
                              .add("m.qscale_act", F32, {})
                              .add("m.output_scale", F32, {})
                              .add("attn.k_scale", F32, {})
                              .add("attn.v_scale", F32, {1})
                              .add("attn.q_scale", F32, {8});
  const auto found = c.find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "companion_dropped");
  EXPECT_EQ(found.findings[0].severity, Severity::report);
  EXPECT_EQ(found.findings[0].message,
            "'m.activation_scale' and 5 more are left out: scales of activations, which values do "
            "not need");
  EXPECT_THAT(c.taken(),
              ElementsAre("m.weight", "m.weight_scale_inv", "m.activation_scale", "m.input_scale",
                          "m.qscale_act", "m.output_scale", "attn.k_scale", "attn.v_scale"));
}

TEST(QuantisedFp8, ModelOptsScalesAreForTheTensor) {
  const auto found =
      QuantisedCase(quantised_by(R"({"quant_method": "modelopt", "quant_algo": "FP8"})"))
          .add("m.weight", F8_E4M3, {4, 4})
          .add("m.weight_scale", F32, {})
          .add("m.input_scale", F32, {})
          .find();
  ASSERT_THAT(found.tensors, SizeIs(1));
  expect_block(found.tensors[0], kEntireDim, kEntireDim);
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "companion_dropped");
}

TEST(QuantisedFp8, OtherCodesAreOfNoKnownScheme) {
  const QuantisedCase c = QuantisedCase()
                              .add("a.weight", F8_E4M3FNUZ, {4, 4})
                              .add("a.weight_scale", F32, {})
                              .add("b.weight", F4, {4, 4});
  EXPECT_THAT(c.codes(), ElementsAre("unknown_scheme", "unknown_scheme", "unknown_companion"));
}

TEST(QuantisedFp8, ConfigsThatSayNothingKnownAreRefused) {
  struct Case {
    const char* json;
    const char* says;
  };
  const Case cases[] = {
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "is not two positive numbers"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "is not two positive numbers"},
      {R"({"quant_method": "fp8", "weight_block_size": [-1, 128]})", "is not two positive numbers"},
      {R"({"quant_method": "fp8", "weight_block_size": [1.5, 2]})", "is not a list of whole"},
      {R"({"quant_method": "fp8", "weight_block_size": "128"})", "is not a list of whole"},
      {R"({"quant_method": "fp8", "expert_dtype": "fp6"})", "known are 'fp8' and 'fp4'"},
      {R"({"quant_method": "quark"})", "is 'quark'; known are fp8"},
      {R"({"quant_method": 8})", "is not a string"},
      {R"({})", "is not there"},
      {R"([])", "is not an object"},
      {R"({"quant_method": "fp8", "modules_to_not_convert": "lm_head"})", "is not a list of str"},
      {R"({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"})", "is 'FP8_PB_WO'"},
  };
  for (const Case& one : cases) {
    const auto found = QuantisedCase(quantised_by(one.json))
                           .add("m.weight", F8_E4M3, {4, 4})
                           .add("m.weight_scale", F32, {})
                           .find();
    EXPECT_THAT(found.tensors, IsEmpty()) << one.json;
    ASSERT_FALSE(found.findings.empty()) << one.json;
    EXPECT_EQ(found.findings[0].code, "unknown_scheme") << one.json;
    EXPECT_THAT(found.findings[0].message, HasSubstr(one.says)) << one.json;
    EXPECT_THAT(found.findings[0].message, HasSubstr("config.json: ")) << one.json;
  }
}

TEST(QuantisedFp8, TheConfigOfTheTextModelCountsAndMayNotContradict) {
  const std::string inner = R"({"quant_method": "fp8", "weight_block_size": [2, 2]})";
  const auto leaves = [](const std::string& config) {
    return QuantisedCase(config)
        .add("m.weight", F8_E4M3, {4, 4})
        .add("m.weight_scale_inv", F32, {2, 2});
  };
  EXPECT_THAT(leaves(R"({"text_config": {"quantization_config": )" + inner + "}}").find().tensors,
              SizeIs(1));
  EXPECT_THAT(leaves(R"({"quantization_config": )" + inner +
                     R"(, "text_config": {"quantization_config": )" + inner + "}}")
                  .codes(),
              IsEmpty());
  EXPECT_THAT(leaves(R"({"quantization_config": {"quant_method": "fp8"}, "text_config": )"
                     R"({"quantization_config": )" +
                     inner + "}}")
                  .codes(),
              ElementsAre("unknown_scheme"));
}

}  // namespace
}  // namespace weightloom
