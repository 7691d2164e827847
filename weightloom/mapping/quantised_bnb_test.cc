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

const std::string kFour = quantised_by(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})");
const std::string kEight = quantised_by(R"({"load_in_8bit": true})");
const std::string kState = R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", )"
                           R"("shape": [15, 9], "nested_blocksize": 2, "nested_dtype": "float32", )"
                           R"("nested_offset": 0.25})";

QuantisedCase& add_state(QuantisedCase& c, const std::string& json) {
  return c.add("m.weight.quant_state.bitsandbytes__nf4", U8, {static_cast<int64_t>(json.size())},
               json);
}

/// 135 values: 68 bytes, 3 blocks.
QuantisedCase nested() {
  return QuantisedCase(kFour)
      .add("m.weight", U8, {68, 1})
      .add("m.weight.absmax", U8, {3})
      .add("m.weight.nested_absmax", F32, {2})
      .add("m.weight.nested_quant_map", F32, {256})
      .add("m.weight.quant_map", F32, {16});
}

TEST(QuantisedBnb, AStateOfNoSaneSizeIsNotRead) {
  const auto found = nested().add("m.weight.quant_state.bitsandbytes__nf4", U8, {65537}, "").find();
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].code, "unknown_scheme");
  EXPECT_THAT(found.findings[0].message, HasSubstr("[65537], larger than any state"));
}

TEST(QuantisedBnb, NestedScalesAreMadeFirst) {
  QuantisedCase c = nested();
  const auto found = add_state(c, kState).find();
  EXPECT_THAT(found.findings, IsEmpty());
  EXPECT_THAT(found.consumed, ElementsAre(true, true, true, true, true, true));
  ASSERT_THAT(found.tensors, SizeIs(2));
  const QuantisedTensor& scales = found.tensors[0];
  EXPECT_EQ(scales.name, "");
  EXPECT_EQ(scales.codec.format, BlockFormat::table8);
  EXPECT_EQ(scales.codec.block_cols, 2);
  EXPECT_EQ(scales.codec.offset, 0.25F);
  EXPECT_EQ(scales.coded_shape, (Shape{1, 3}));
  EXPECT_EQ(scales.operands[0].place, 1U);
  EXPECT_EQ(scales.operands[1].place, 2U);
  EXPECT_EQ(scales.operands[2].place, 3U);
  const QuantisedTensor& tensor = found.tensors[1];
  EXPECT_EQ(tensor.name, "m.weight");
  EXPECT_EQ(tensor.codec.format, BlockFormat::table4);
  EXPECT_EQ(tensor.codec.block_rows, 1);
  EXPECT_EQ(tensor.codec.block_cols, 64);
  EXPECT_EQ(tensor.coded_shape, (Shape{1, 135}));
  EXPECT_EQ(tensor.layout.shape(), (Shape{15, 9}));
  EXPECT_EQ(tensor.operands[0].shape, (Shape{1, 68}));
  EXPECT_TRUE(tensor.operands[1].is_made);
  EXPECT_EQ(tensor.operands[1].place, 0U);
  EXPECT_EQ(tensor.operands[2].place, 4U);
  EXPECT_EQ(tensor.operands[2].shape, (Shape{1, 16}));
}

TEST(QuantisedBnb, PlainScalesAreTakenAsTheyAre) {
  QuantisedCase c = QuantisedCase(kFour)
                        .add("m.weight", U8, {68, 1})
                        .add("m.weight.absmax", F32, {3})
                        .add("m.weight.quant_map", F32, {16});
  const auto found = add_state(c, R"({"blocksize": 64, "shape": [135]})").find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_FALSE(found.tensors[0].operands[1].is_made);
  EXPECT_EQ(found.tensors[0].layout.shape(), (Shape{135}));
}

TEST(QuantisedBnb, StatesThatDoNotSayEnoughAreRefused) {
  for (const char* json :
       {"", "{", "[]", "{}", R"({"blocksize": 64})", R"({"blocksize": 0, "shape": [15, 9]})",
        R"({"blocksize": 64, "shape": [15, -9]})", R"({"blocksize": 64, "shape": "15"})",
        R"({"blocksize": 64, "shape": [15, 9]})",
        R"({"blocksize": 64, "shape": [15, 9], "nested_blocksize": 0, "nested_offset": 0.1})",
        R"({"blocksize": 64, "shape": [15, 9], "nested_blocksize": 2})",
        R"({"blocksize": 64, "shape": [15, 9], "nested_blocksize": 2, "nested_offset": "0"})"}) {
    QuantisedCase c = nested();
    const auto found = add_state(c, json).find();
    EXPECT_THAT(found.tensors, IsEmpty()) << json;
    ASSERT_THAT(found.findings, SizeIs(1)) << json;
    EXPECT_EQ(found.findings[0].code, "unknown_scheme") << json;
    EXPECT_THAT(found.findings[0].message, HasSubstr("'m.weight': its state ")) << json;
  }
}

TEST(QuantisedBnb, ShapesThatDoNotFitAreRefused) {
  QuantisedCase c = nested();
  const auto found = add_state(c, R"({"blocksize": 32, "shape": [15, 9]})").find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].message,
            "'m.weight.absmax' is [3], but 'm.weight' [15, 9] in blocks of 32 needs [5]");
  QuantisedCase d = nested();
  const auto bytes = add_state(d, R"({"blocksize": 64, "shape": [16, 9]})").find();
  ASSERT_THAT(bytes.findings, SizeIs(1));
  EXPECT_EQ(bytes.findings[0].message,
            "'m.weight' is [68, 1], but 'm.weight' of [16, 9] values, two in a byte, needs "
            "[72, 1]");
}

TEST(QuantisedBnb, WhatIsMissingIsNamed) {
  QuantisedCase c = QuantisedCase(kFour).add("m.weight", U8, {68, 1});
  const auto found = add_state(c, kState).find();
  ASSERT_THAT(found.findings, SizeIs(2));
  EXPECT_EQ(found.findings[0].code, "scale_missing");
  EXPECT_THAT(nested().codes(),
              ElementsAre("scale_alone", "scale_alone", "scale_alone", "scale_alone"));
}

TEST(QuantisedBnb, TwoStatesOfOneTensorAreRefused) {
  QuantisedCase c = nested();
  add_state(c, kState).add("m.weight.quant_state.bitsandbytes__fp4", U8, {2}, "{}");
  EXPECT_THAT(c.codes(), ElementsAre("unknown_companion"));
}

TEST(QuantisedBnb, Int8HasAScaleForEachRow) {
  const auto leaves = [](const std::string& format) {
    return QuantisedCase(kEight)
        .add("m.SCB", F32, {4})
        .add("m.weight", I8, {4, 6})
        .add("m.weight_format", U8, {}, format);
  };
  const auto found = leaves(std::string(1, '\0')).find();
  EXPECT_THAT(found.findings, IsEmpty());
  EXPECT_THAT(found.consumed, ElementsAre(true, true, true));
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.format, BlockFormat::int8);
  EXPECT_EQ(found.tensors[0].codec.factor, 0.007874015718698502F);
  EXPECT_EQ(found.tensors[0].codec.block_rows, 1);
  EXPECT_EQ(found.tensors[0].codec.block_cols, kEntireDim);
  EXPECT_EQ(found.tensors[0].operands[1].shape, (Shape{4, 1}));
  EXPECT_THAT(leaves("\2").codes(), ElementsAre("unknown_scheme"));
  EXPECT_THAT(QuantisedCase(kEight).add("m.weight", I8, {4, 6}).codes(),
              ElementsAre("scale_missing"));
  EXPECT_THAT(QuantisedCase(kEight).add("m.SCB", F32, {4}).codes(), ElementsAre("scale_alone"));
  EXPECT_THAT(QuantisedCase(kEight).add("m.SCB", F32, {5}).add("m.weight", I8, {4, 6}).codes(),
              ElementsAre("scale_grid"));
}

}  // namespace
}  // namespace weightloom
