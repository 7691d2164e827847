#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"
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

const std::string kMxfp4 = quantised_by(R"({"quant_method": "mxfp4"})");
const std::string kNvfp4 =
    quantised_by(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})");

TEST(QuantisedE2m1, GptOssExpertsAreTransposedAsTheModelHasThem) {
  const auto found = QuantisedCase(kMxfp4)
                         .add("l.experts.gate_up_proj_bias", BF16, {2, 3})
                         .add("l.experts.gate_up_proj_blocks", U8, {2, 3, 2, 16})
                         .add("l.experts.gate_up_proj_scales", U8, {2, 3, 2})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  EXPECT_THAT(found.consumed, ElementsAre(false, true, true));
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.name, "l.experts.gate_up_proj");
  EXPECT_EQ(tensor.codec.format, BlockFormat::e2m1);
  EXPECT_EQ(tensor.codec.code_dtype, U8);
  EXPECT_EQ(tensor.codec.scale_dtype, F8_E8M0);
  EXPECT_EQ(tensor.codec.block_rows, 1);
  EXPECT_EQ(tensor.codec.block_cols, 32);
  EXPECT_EQ(tensor.codec.global_scale, GlobalScale::none);
  EXPECT_EQ(tensor.coded_shape, (Shape{2, 3, 64}));
  EXPECT_EQ(tensor.operands[0].place, 1U);
  EXPECT_EQ(tensor.operands[0].shape, (Shape{2, 3, 32}));
  EXPECT_EQ(tensor.operands[1].place, 2U);
  EXPECT_EQ(tensor.operands[1].shape, (Shape{2, 3, 2}));
  ASSERT_EQ(tensor.layout.shape(), (Shape{2, 64, 3}));
  testing::Dense values{{2, 3, 64}, {}};
  for (int64_t i = 0; i < 384; ++i) values.values.push_back(i);
  const auto gathered = testing::gather(tensor.layout, std::vector{values});
  // [e, in, out] = [e, out, in]: element (1, 5, 2) is 1·192 + 2·64 + 5.
  EXPECT_EQ(gathered.values[1 * 192 + 5 * 3 + 2], 192 + 128 + 5);
}

TEST(QuantisedE2m1, GptOssBlocksOfAnotherShapeAreRefused) {
  const auto rank = QuantisedCase(kMxfp4)
                        .add("e.down_proj_blocks", U8, {3, 2, 16})
                        .add("e.down_proj_scales", U8, {3, 2})
                        .find();
  ASSERT_THAT(rank.findings, SizeIs(1));
  EXPECT_EQ(rank.findings[0].code, "scale_grid");
  EXPECT_THAT(rank.findings[0].message, HasSubstr("is [3, 2, 16], but blocks are [experts"));
  const auto grid = QuantisedCase(kMxfp4)
                        .add("e.down_proj_blocks", U8, {2, 3, 2, 16})
                        .add("e.down_proj_scales", U8, {2, 3, 1})
                        .find();
  ASSERT_THAT(grid.findings, SizeIs(1));
  EXPECT_EQ(grid.findings[0].message,
            "'e.down_proj_scales' is [2, 3, 1], but 'e.down_proj_blocks' [2, 3, 2, 16] needs "
            "[2, 3, 2]");
}

TEST(QuantisedE2m1, GptOssHalvesWithoutTheOtherAreRefused) {
  EXPECT_THAT(QuantisedCase(kMxfp4).add("e.down_proj_blocks", U8, {2, 3, 2, 16}).codes(),
              ElementsAre("scale_missing"));
  EXPECT_THAT(QuantisedCase(kMxfp4).add("e.down_proj_scales", U8, {2, 3, 2}).codes(),
              ElementsAre("scale_alone"));
  EXPECT_THAT(QuantisedCase(kMxfp4)
                  .add("e.down_proj_blocks", BF16, {2, 3, 2, 16})
                  .add("e.down_proj_scales", U8, {2, 3, 2})
                  .codes(),
              ElementsAre("unknown_companion"));
}

TEST(QuantisedE2m1, WithoutADeclarationBytesAreOfNoKnownScheme) {
  EXPECT_THAT(QuantisedCase()
                  .add("e.down_proj_blocks", U8, {2, 3, 2, 16})
                  .add("e.down_proj_scales", U8, {2, 3, 2})
                  .codes(),
              ElementsAre("unknown_scheme"));
  EXPECT_THAT(
      QuantisedCase().add("m.weight", U8, {4, 16}).add("m.weight_scale", F8_E4M3, {4, 2}).codes(),
      ElementsAre("unknown_scheme"));
}

TEST(QuantisedE2m1, ModelOptsGlobalScaleMultiplies) {
  const auto found = QuantisedCase(kNvfp4)
                         .add("m.weight", U8, {3, 20})
                         .add("m.weight_scale", F8_E4M3, {3, 3})
                         .add("m.weight_scale_2", F32, {})
                         .add("n.weight", BF16, {3})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.codec.format, BlockFormat::e2m1);
  EXPECT_EQ(tensor.codec.scale_dtype, F8_E4M3);
  EXPECT_EQ(tensor.codec.block_cols, 16);
  EXPECT_EQ(tensor.codec.global_scale, GlobalScale::multiplies);
  EXPECT_EQ(tensor.coded_shape, (Shape{3, 40}));
  ASSERT_THAT(tensor.operands, SizeIs(3));
  EXPECT_EQ(tensor.operands[0].shape, (Shape{3, 20}));
  EXPECT_EQ(tensor.operands[1].shape, (Shape{3, 3}));
  EXPECT_EQ(tensor.operands[2].shape, (Shape{1, 1}));
}

TEST(QuantisedE2m1, OfAStackTheGlobalScaleIsForAllOrForEach) {
  const auto leaves = [](Shape global) {
    return QuantisedCase(kNvfp4)
        .add("e.up", U8, {2, 3, 8})
        .add("e.up_scale", F8_E4M3, {2, 3, 1})
        .add("e.up_scale_2", F32, std::move(global))
        .find();
  };
  const auto one = leaves({1});
  ASSERT_THAT(one.tensors, SizeIs(1));
  EXPECT_EQ(one.tensors[0].coded_shape, (Shape{6, 16}));
  EXPECT_EQ(one.tensors[0].operands[0].shape, (Shape{6, 8}));
  EXPECT_EQ(one.tensors[0].operands[1].shape, (Shape{6, 1}));
  EXPECT_EQ(one.tensors[0].layout.shape(), (Shape{2, 3, 16}));
  const auto each = leaves({2});
  ASSERT_THAT(each.tensors, SizeIs(1));
  EXPECT_EQ(each.tensors[0].coded_shape, (Shape{2, 3, 16}));
  EXPECT_EQ(each.tensors[0].operands[2].shape, (Shape{2, 1, 1}));
  const auto wrong = leaves({3});
  ASSERT_THAT(wrong.findings, SizeIs(1));
  EXPECT_EQ(wrong.findings[0].message,
            "'e.up_scale_2' is [3], but one for each matrix of 'e.up' [2, 3, 16] needs [2, 1, 1]");
}

/// A second-level scale that is not collected makes values wrong by a constant.
TEST(QuantisedE2m1, EveryScaleOfNvfp4IsNeeded) {
  EXPECT_THAT(QuantisedCase(kNvfp4)
                  .add("m.weight", U8, {3, 8})
                  .add("m.weight_scale", F8_E4M3, {3, 1})
                  .codes(),
              ElementsAre("scale_missing"));
  EXPECT_THAT(
      QuantisedCase(kNvfp4).add("m.weight", U8, {3, 8}).add("m.weight_scale_2", F32, {}).codes(),
      ElementsAre("scale_missing"));
  EXPECT_THAT(QuantisedCase(kNvfp4).add("m.weight_scale", F8_E4M3, {3, 1}).codes(),
              ElementsAre("scale_alone"));
}

TEST(QuantisedE2m1, Nvfp4IsRefusedWhereItsGridDoesNotFit) {
  const auto found = QuantisedCase(kNvfp4)
                         .add("m.weight", U8, {3, 20})
                         .add("m.weight_scale", F8_E4M3, {3, 2})
                         .add("m.weight_scale_2", F32, {})
                         .find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].message,
            "'m.weight_scale' is [3, 2], but 'm.weight' [3, 40] in blocks of [1, 16] needs [3, 3]");
}

TEST(QuantisedE2m1, DeepSeekV4sExpertsArePairsBesideFp8) {
  const auto found =
      QuantisedCase(quantised_by(R"({"quant_method": "fp8", "weight_block_size": [128, 128],
                                     "scale_fmt": "ue8m0", "expert_dtype": "fp4"})"))
          .add("experts.0.w1.weight", I8, {3, 32})
          .add("experts.0.w1.scale", F8_E8M0, {3, 2})
          .add("wq.weight", F8_E4M3, {130, 3})
          .add("wq.scale", F8_E8M0, {2, 1})
          .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(2));
  EXPECT_EQ(found.tensors[0].name, "experts.0.w1.weight");
  EXPECT_EQ(found.tensors[0].codec.format, BlockFormat::e2m1);
  EXPECT_EQ(found.tensors[0].codec.block_cols, 32);
  EXPECT_EQ(found.tensors[0].coded_shape, (Shape{3, 64}));
  EXPECT_EQ(found.tensors[1].codec.format, BlockFormat::fp8);
  EXPECT_EQ(found.tensors[1].codec.scale_dtype, F8_E8M0);
}

}  // namespace
}  // namespace weightloom
