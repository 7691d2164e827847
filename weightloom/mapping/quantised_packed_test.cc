#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/quantised_testing.h"

namespace weightloom {
namespace {

using enum DType;
using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::quantised_by;
using testing::QuantisedCase;
using ::testing::SizeIs;

/// A config of compressed-tensors with one group for all Linears.
std::string grouped(const std::string& format, const std::string& weights) {
  return quantised_by(R"({"quant_method": "compressed-tensors", "format": ")" + format +
                      R"(", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": )" +
                      R"(["Linear"], "input_activations": null, "weights": )" + weights + "}}}");
}

const std::string kInt4 = grouped("pack-quantized", R"({"num_bits": 4, "type": "int",
    "symmetric": true, "strategy": "group", "group_size": 32})");
const std::string kInt4Zeros = grouped("pack-quantized", R"({"num_bits": 4, "type": "int",
    "symmetric": false, "strategy": "group", "group_size": 32})");

QuantisedCase packed(const std::string& config, Shape shape, Shape codes, Shape scale) {
  QuantisedCase c(config);
  c.add("m.weight_packed", I32, std::move(codes));
  c.add("m.weight_scale", BF16, std::move(scale));
  c.add("m.weight_shape", I64, {static_cast<int64_t>(shape.size())}, bytes_of(shape, 8));
  return c;
}

TEST(QuantisedPacked, FourBitsInGroupsEndInAPartlyFilledWord) {
  const auto found = packed(kInt4, {3, 70}, {3, 9}, {3, 3}).find();
  EXPECT_THAT(found.findings, IsEmpty());
  EXPECT_THAT(found.consumed, ElementsAre(true, true, true));
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.name, "m.weight");
  EXPECT_EQ(tensor.codec.format, BlockFormat::packed);
  EXPECT_EQ(tensor.codec.bits, 4);
  EXPECT_EQ(tensor.codec.block_rows, 1);
  EXPECT_EQ(tensor.codec.block_cols, 32);
  EXPECT_EQ(tensor.codec.scale_dtype, BF16);
  EXPECT_FALSE(tensor.codec.zero_points);
  EXPECT_EQ(tensor.coded_shape, (Shape{3, 70}));
  EXPECT_EQ(tensor.layout.shape(), (Shape{3, 70}));
}

TEST(QuantisedPacked, EightBitsAreChannelsOrOneScale) {
  const auto channel =
      packed(grouped("pack-quantized", R"({"num_bits": 8, "strategy": "channel"})"), {3, 6}, {3, 2},
             {3, 1})
          .find();
  EXPECT_THAT(channel.findings, IsEmpty());
  ASSERT_THAT(channel.tensors, SizeIs(1));
  EXPECT_EQ(channel.tensors[0].codec.bits, 8);
  EXPECT_EQ(channel.tensors[0].codec.block_rows, 1);
  EXPECT_EQ(channel.tensors[0].codec.block_cols, kEntireDim);
  const auto unsaid =
      packed(grouped("pack-quantized", R"({"num_bits": 8})"), {3, 6}, {3, 2}, {1}).find();
  ASSERT_THAT(unsaid.tensors, SizeIs(1));
  EXPECT_EQ(unsaid.tensors[0].codec.block_cols, kEntireDim);
  EXPECT_THAT(packed(grouped("pack-quantized", R"({"num_bits": 8})"), {3, 6}, {3, 2}, {3}).codes(),
              ElementsAre("scale_grid"));
  const auto one = packed(grouped("pack-quantized", R"({"num_bits": 8, "strategy": "tensor"})"),
                          {3, 6}, {3, 2}, {1, 1})
                       .find();
  ASSERT_THAT(one.tensors, SizeIs(1));
  EXPECT_EQ(one.tensors[0].codec.block_rows, kEntireDim);
}

TEST(QuantisedPacked, ZeroPointsArePackedAlongTheRows) {
  const auto found =
      packed(kInt4Zeros, {11, 64}, {11, 8}, {11, 2}).add("m.weight_zero_point", I32, {2, 2}).find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_TRUE(found.tensors[0].codec.zero_points);
  ASSERT_THAT(found.tensors[0].operands, SizeIs(3));
  EXPECT_EQ(found.tensors[0].operands[2].shape, (Shape{2, 2}));
  const auto wrong = packed(kInt4Zeros, {11, 64}, {11, 8}, {11, 2})
                         .add("m.weight_zero_point", I32, {11, 2})
                         .find();
  ASSERT_THAT(wrong.findings, SizeIs(1));
  EXPECT_EQ(wrong.findings[0].code, "scale_grid");
  EXPECT_EQ(wrong.findings[0].message,
            "'m.weight_zero_point' is [11, 2], but zero points of 'm.weight' [11, 64] of 4 bits "
            "needs [2, 2]");
}

TEST(QuantisedPacked, WhatIsMissingIsNamed) {
  EXPECT_THAT(packed(kInt4Zeros, {11, 64}, {11, 8}, {11, 2}).codes(), ElementsAre("scale_missing"));
  const auto found = QuantisedCase(kInt4).add("m.weight_packed", I32, {3, 8}).find();
  ASSERT_THAT(found.findings, SizeIs(2));
  EXPECT_EQ(found.findings[0].message, "'m.weight' needs 'm.weight_scale', which is not there");
  EXPECT_EQ(found.findings[1].message, "'m.weight' needs 'm.weight_shape', which is not there");
}

TEST(QuantisedPacked, ShapesThatContradictAreRefused) {
  const auto words = packed(kInt4, {3, 70}, {3, 8}, {3, 3}).find();
  ASSERT_THAT(words.findings, SizeIs(1));
  EXPECT_EQ(words.findings[0].message,
            "'m.weight_packed' is [3, 8], but 'm.weight' [3, 70] of 4 bits needs [3, 9]");
  const auto grid = packed(kInt4, {3, 70}, {3, 9}, {3, 2}).find();
  ASSERT_THAT(grid.findings, SizeIs(1));
  EXPECT_EQ(grid.findings[0].message,
            "'m.weight_scale' is [3, 2], but 'm.weight' [3, 70] in blocks of [1, 32] needs [3, 3]");
  const auto negative = packed(kInt4, {3, -70}, {3, 9}, {3, 3}).find();
  ASSERT_THAT(negative.findings, SizeIs(1));
  EXPECT_THAT(negative.findings[0].message, HasSubstr("does not hold a shape: [3, -70]"));
  const auto huge = packed(kInt4, {int64_t{1} << 40, int64_t{1} << 40}, {3, 9}, {3, 3}).find();
  EXPECT_THAT(huge.tensors, IsEmpty());
  const auto text = QuantisedCase(kInt4)
                        .add("m.weight_packed", I32, {3, 9})
                        .add("m.weight_scale", F32, {3, 3})
                        .add("m.weight_shape", F32, {2}, "12345678")
                        .find();
  ASSERT_THAT(text.findings, SizeIs(1));
  EXPECT_EQ(text.findings[0].code, "unknown_companion");
}

TEST(QuantisedPacked, ColumnsInAnotherOrderAreRefusedAndInTheirOwnTaken) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 64; ++i) order.push_back(i / 32);
  const auto with = [&](const std::vector<int64_t>& groups) {
    return packed(kInt4, {3, 64}, {3, 8}, {3, 2})
        .add("m.weight_g_idx", I32, {64}, bytes_of(groups, 4));
  };
  EXPECT_THAT(with(order).codes(), IsEmpty());
  EXPECT_THAT(with(order).find().tensors, SizeIs(1));
  std::swap(order[3], order[40]);
  const auto found = with(order).find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "unknown_scheme");
  EXPECT_THAT(found.findings[0].message, HasSubstr("(g_idx)"));
  // Of another length it is not even read.
  EXPECT_THAT(packed(kInt4, {3, 64}, {3, 8}, {3, 2}).add("m.weight_g_idx", I32, {65}).codes(),
              ElementsAre("scale_grid"));
}

TEST(QuantisedPacked, OtherWidthsAndOddZeroPointsAreRefused) {
  const auto three = packed(grouped("pack-quantized", R"({"num_bits": 3, "strategy": "channel"})"),
                            {3, 64}, {3, 6}, {3, 1})
                         .find();
  ASSERT_THAT(three.findings, SizeIs(1));
  EXPECT_EQ(three.findings[0].message, "'m.weight' is packed in 3 bits; known are 4 and 8");
  const auto tensor =
      packed(
          grouped("pack-quantized", R"({"num_bits": 4, "strategy": "tensor", "symmetric": false})"),
          {3, 64}, {3, 8}, {1, 1})
          .add("m.weight_zero_point", I32, {1, 1})
          .find();
  ASSERT_THAT(tensor.findings, SizeIs(1));
  EXPECT_EQ(tensor.findings[0].code, "unknown_scheme");
}

TEST(QuantisedPacked, Nvfp4DividesByItsGlobalScale) {
  const std::string config = grouped("nvfp4-pack-quantized", R"({"num_bits": 4, "type": "float",
      "symmetric": true, "strategy": "tensor_group", "group_size": 16})");
  const auto found = QuantisedCase(config)
                         .add("m.weight_packed", U8, {3, 16})
                         .add("m.weight_scale", F8_E4M3, {3, 2})
                         .add("m.weight_global_scale", F32, {1})
                         .add("m.input_global_scale", F32, {1})
                         .find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "companion_dropped");
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.format, BlockFormat::e2m1);
  EXPECT_EQ(found.tensors[0].codec.global_scale, GlobalScale::divides);
  EXPECT_EQ(found.tensors[0].codec.block_cols, 16);
  EXPECT_EQ(found.tensors[0].coded_shape, (Shape{3, 32}));
  EXPECT_THAT(QuantisedCase(config)
                  .add("m.weight_packed", U8, {3, 16})
                  .add("m.weight_scale", F8_E4M3, {3, 2})
                  .codes(),
              ElementsAre("scale_missing"));
}

TEST(QuantisedPacked, Mxfp4HasExponentsAndNoGlobalScale) {
  const std::string config = grouped("mxfp4-pack-quantized", R"({"num_bits": 4, "type": "float",
      "strategy": "group", "group_size": 32})");
  const auto found = QuantisedCase(config)
                         .add("m.weight_packed", U8, {3, 32})
                         .add("m.weight_scale", U8, {3, 2})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.scale_dtype, F8_E8M0);
  EXPECT_EQ(found.tensors[0].codec.global_scale, GlobalScale::none);
  EXPECT_THAT(QuantisedCase(config)
                  .add("m.weight_packed", U8, {3, 32})
                  .add("m.weight_scale", U8, {3, 2})
                  .add("m.weight_global_scale", F32, {1})
                  .codes(),
              ElementsAre("unknown_companion"));
}

TEST(QuantisedPacked, Fp8IsByStrategy) {
  struct Case {
    const char* weights;
    Shape scale;
    int64_t rows;
    int64_t cols;
  };
  const Case cases[] = {
      {R"({"num_bits": 8, "type": "float", "strategy": "tensor"})", {1}, kEntireDim, kEntireDim},
      {R"({"num_bits": 8, "type": "float", "strategy": "channel"})", {6, 1}, 1, kEntireDim},
      {R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 4})", {6, 3}, 1, 4},
      {R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [4, 8]})",
       {2, 2},
       4,
       8},
      {R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": "4x8"})",
       {2, 2},
       4,
       8},
  };
  for (const Case& one : cases) {
    const auto found = QuantisedCase(grouped("float-quantized", one.weights))
                           .add("m.weight", F8_E4M3, {6, 10})
                           .add("m.weight_scale", BF16, one.scale)
                           .find();
    EXPECT_THAT(found.findings, IsEmpty()) << one.weights;
    ASSERT_THAT(found.tensors, SizeIs(1)) << one.weights;
    EXPECT_EQ(found.tensors[0].codec.format, BlockFormat::fp8);
    EXPECT_EQ(found.tensors[0].codec.block_rows, one.rows);
    EXPECT_EQ(found.tensors[0].codec.block_cols, one.cols);
  }
  EXPECT_THAT(QuantisedCase(grouped("float-quantized", cases[1].weights))
                  .add("m.weight", F8_E4M3, {6, 10})
                  .add("m.weight_scale", BF16, {1})
                  .codes(),
              ElementsAre("scale_grid"));
}

TEST(QuantisedPacked, Mxfp8HasExponentsInGroupsOf32) {
  const auto found = QuantisedCase(grouped("mxfp8-quantized", R"({"num_bits": 8, "type": "float",
                                           "strategy": "group", "group_size": 32})"))
                         .add("m.weight", F8_E4M3, {6, 40})
                         .add("m.weight_scale", U8, {6, 2})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.scale_dtype, F8_E8M0);
  EXPECT_EQ(found.tensors[0].codec.block_cols, 32);
}

TEST(QuantisedPacked, Int8HasItsZeroPointsAsBytes) {
  const std::string config = grouped("int-quantized", R"({"num_bits": 8, "strategy": "channel"})");
  const auto found =
      QuantisedCase(config).add("m.weight", I8, {6, 10}).add("m.weight_scale", BF16, {6, 1}).find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.format, BlockFormat::int8);
  EXPECT_EQ(found.tensors[0].codec.factor, 1.0F);
  EXPECT_EQ(found.tensors[0].codec.block_cols, kEntireDim);
  const auto zeros =
      QuantisedCase(
          grouped("int-quantized", R"({"num_bits": 8, "strategy": "channel", "symmetric": false})"))
          .add("m.weight", I8, {6, 10})
          .add("m.weight_scale", BF16, {6, 1})
          .add("m.weight_zero_point", I8, {6, 1})
          .find();
  EXPECT_THAT(zeros.findings, IsEmpty());
  ASSERT_THAT(zeros.tensors, SizeIs(1));
  EXPECT_TRUE(zeros.tensors[0].codec.zero_points);
  EXPECT_THAT(QuantisedCase(config).add("m.weight", I8, {6, 10}).codes(),
              ElementsAre("scale_missing"));
}

TEST(QuantisedPacked, GroupsAreChosenByNameThenPatternThenClass) {
  const std::string config = quantised_by(R"({"quant_method": "compressed-tensors",
    "format": "mixed-precision", "config_groups": {
      "g0": {"targets": ["Linear"], "format": "float-quantized",
             "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}},
      "g1": {"targets": ["re:.*mlp.*"], "format": "float-quantized",
             "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}},
      "g2": {"targets": ["l.0.mlp.up"], "format": "float-quantized",
             "weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 5}}}})");
  const auto found = QuantisedCase(config)
                         .add("l.0.attn.q.weight", F8_E4M3, {6, 10})
                         .add("l.0.attn.q.weight_scale", F32, {6, 1})
                         .add("l.0.mlp.down.weight", F8_E4M3, {6, 10})
                         .add("l.0.mlp.down.weight_scale", F32, {1})
                         .add("l.0.mlp.up.weight", F8_E4M3, {6, 10})
                         .add("l.0.mlp.up.weight_scale", F32, {6, 2})
                         .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(3));
  EXPECT_EQ(found.tensors[0].codec.block_cols, kEntireDim);
  EXPECT_EQ(found.tensors[0].codec.block_rows, 1);
  EXPECT_EQ(found.tensors[1].codec.block_rows, kEntireDim);
  EXPECT_EQ(found.tensors[2].codec.block_cols, 5);
}

TEST(QuantisedPacked, GroupsOfOneClassAreToldApartByTheirCodes) {
  const std::string both = quantised_by(R"({"quant_method": "compressed-tensors",
    "format": "mixed-precision", "config_groups": {
      "g0": {"targets": ["Linear"], "format": "float-quantized",
             "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}},
      "g1": {"targets": ["Linear"], "format": "pack-quantized",
             "weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}})");
  EXPECT_THAT(packed(both, {3, 70}, {3, 9}, {3, 3})
                  .add("n.weight", F8_E4M3, {2, 2})
                  .add("n.weight_scale", F32, {2, 1})
                  .find()
                  .tensors,
              SizeIs(2));
  const std::string contradict = quantised_by(R"({"quant_method": "compressed-tensors",
    "config_groups": {
      "g0": {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "channel"}},
      "g1": {"targets": ["Linear"],
             "weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}})");
  const auto found = packed(contradict, {3, 70}, {3, 9}, {3, 3}).find();
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].code, "unknown_scheme");
  EXPECT_THAT(found.findings[0].message, HasSubstr("'g0' and 'g1' say different things of 'm'"));
}

TEST(QuantisedPacked, CodesThatNoGroupMakesAreRefused) {
  const auto found =
      QuantisedCase(kInt4).add("m.weight", I8, {3, 4}).add("m.weight_scale", F32, {3, 1}).find();
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].code, "unknown_scheme");
  EXPECT_THAT(found.findings[0].message, HasSubstr("'m.weight' is stored as I8, but no group"));
}

TEST(QuantisedPacked, ConfigsOfAnotherFormAreRefused) {
  struct Case {
    std::string json;
    const char* says;
  };
  const Case cases[] = {
      {grouped("marlin-24", R"({"num_bits": 4})"), "is 'marlin-24'; known are"},
      {grouped("pack-quantized", R"({"num_bits": "4"})"), "is not a whole number"},
      {grouped("pack-quantized", R"({"num_bits": 0})"), "is not between 1 and 8"},
      {grouped("pack-quantized", R"({"type": "uint"})"), "is 'uint'; known are"},
      {grouped("pack-quantized", R"({"strategy": "group"})"), "is not a positive number"},
      {grouped("pack-quantized", R"({"strategy": "group", "group_size": 0})"), "is not a positive"},
      {grouped("pack-quantized", R"({"strategy": "token"})"), "is 'token'; known are"},
      {grouped("pack-quantized", R"({"strategy": "block", "block_structure": [0, 1]})"),
       "is not two positive"},
      {grouped("pack-quantized", R"({"strategy": "block", "block_structure": "8"})"),
       "is not two positive"},
      {grouped("pack-quantized", "[]"), "is not an object"},
      {quantised_by(R"({"quant_method": "compressed-tensors"})"), "is not there"},
      {quantised_by(R"({"quant_method": "compressed-tensors", "config_groups": {"W4A16": )"
                    R"(["Linear"]}})"),
       "is not an object"},
      {quantised_by(R"({"quant_method": "compressed-tensors", "config_groups": {}, )"
                    R"("sparsity_config": {"format": "sparse-24-bitmask"}})"),
       "sparse weights are not known"},
      {quantised_by(R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": )"
                    R"(["re:(("], "weights": {}}}})"),
       "is no pattern"},
  };
  for (const Case& one : cases) {
    const auto found = packed(one.json, {3, 64}, {3, 8}, {3, 2}).find();
    EXPECT_THAT(found.tensors, IsEmpty()) << one.json;
    ASSERT_FALSE(found.findings.empty()) << one.json;
    EXPECT_EQ(found.findings[0].code, "unknown_scheme") << one.json;
    EXPECT_THAT(found.findings[0].message, HasSubstr(one.says)) << one.json;
  }
}

}  // namespace
}  // namespace weightloom
