#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"
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

std::string gptq(const std::string& more) {
  return quantised_by(R"({"quant_method": "gptq", "bits": 4, "group_size": 16)" + more + "}");
}

QuantisedCase gptq_module(const std::string& config) {
  return QuantisedCase(config)
      .add("m.qweight", I32, {5, 3})
      .add("m.qzeros", I32, {3, 1})
      .add("m.scales", F16, {3, 3});
}

std::vector<int64_t> groups_in_order() {
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < 40; ++i) groups.push_back(i / 16);
  return groups;
}

TEST(QuantisedGptq, WordsAlongTheRowsAreTransposed) {
  const auto found =
      gptq_module(gptq("")).add("m.g_idx", I32, {40}, bytes_of(groups_in_order(), 4)).find();
  EXPECT_THAT(found.findings, IsEmpty());
  EXPECT_THAT(found.consumed, ElementsAre(true, true, true, true));
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.name, "m.weight");
  EXPECT_EQ(tensor.codec.format, BlockFormat::gptq);
  EXPECT_EQ(tensor.codec.bits, 4);
  EXPECT_EQ(tensor.codec.block_rows, 16);
  EXPECT_EQ(tensor.codec.block_cols, 1);
  EXPECT_EQ(tensor.codec.zero_bias, 1);
  EXPECT_TRUE(tensor.codec.zero_points);
  EXPECT_FALSE(tensor.codec.group_index);
  EXPECT_EQ(tensor.codec.scale_dtype, F16);
  EXPECT_EQ(tensor.coded_shape, (Shape{40, 3}));
  ASSERT_EQ(tensor.layout.shape(), (Shape{3, 40}));
  testing::Dense values{{40, 3}, {}};
  for (int64_t i = 0; i < 120; ++i) values.values.push_back(i);
  EXPECT_EQ(testing::gather(tensor.layout, std::vector{values}).values[1 * 40 + 7], 7 * 3 + 1);
  EXPECT_EQ(tensor.operands[1].place, 2U);
  EXPECT_EQ(tensor.operands[2].place, 1U);
}

TEST(QuantisedGptq, TheSecondFormatHasNoBias) {
  const auto found = gptq_module(gptq(R"(, "checkpoint_format": "gptq_v2")")).find();
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.zero_bias, 0);
}

TEST(QuantisedGptq, RowsInAnotherOrderTakeTheirGroupFromTheList) {
  auto groups = groups_in_order();
  std::swap(groups[0], groups[39]);
  const auto declared = gptq_module(gptq(R"(, "desc_act": true)"))
                            .add("m.g_idx", I32, {40}, bytes_of(groups, 4))
                            .find();
  EXPECT_THAT(declared.findings, IsEmpty());
  ASSERT_THAT(declared.tensors, SizeIs(1));
  EXPECT_TRUE(declared.tensors[0].codec.group_index);
  EXPECT_EQ(declared.tensors[0].codec.groups, 3);
  ASSERT_THAT(declared.tensors[0].operands, SizeIs(4));
  EXPECT_EQ(declared.tensors[0].operands[3].shape, (Shape{40, 1}));
  const auto undeclared =
      gptq_module(gptq("")).add("m.g_idx", I32, {40}, bytes_of(groups, 4)).find();
  ASSERT_THAT(undeclared.tensors, SizeIs(1));
  EXPECT_TRUE(undeclared.tensors[0].codec.group_index);
  EXPECT_THAT(gptq_module(gptq(R"(, "desc_act": true)")).codes(), ElementsAre("scale_missing"));
}

TEST(QuantisedGptq, OneGroupIsAllRows) {
  const auto found =
      QuantisedCase(quantised_by(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})"))
          .add("m.qweight", I32, {5, 3})
          .add("m.qzeros", I32, {1, 1})
          .add("m.scales", F16, {1, 3})
          .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].codec.bits, 8);
  EXPECT_EQ(found.tensors[0].codec.block_rows, kEntireDim);
  EXPECT_EQ(found.tensors[0].coded_shape, (Shape{20, 3}));
}

TEST(QuantisedGptq, WhatDoesNotFitIsRefusedWithTheNumbers) {
  const auto found = QuantisedCase(gptq(""))
                         .add("m.qweight", I32, {5, 3})
                         .add("m.qzeros", I32, {3, 1})
                         .add("m.scales", F16, {2, 3})
                         .find();
  ASSERT_THAT(found.findings, SizeIs(1));
  EXPECT_EQ(found.findings[0].code, "scale_grid");
  EXPECT_EQ(found.findings[0].message,
            "'m.scales' is [2, 3], but 'm.weight' [40, 3] in blocks of [16, 1] needs [3, 3]");
  EXPECT_THAT(QuantisedCase(gptq("")).add("m.qweight", I32, {5, 3}).codes(),
              ElementsAre("scale_missing", "scale_missing"));
  EXPECT_THAT(QuantisedCase(gptq("")).add("m.qzeros", I32, {5, 3}).codes(),
              ElementsAre("scale_alone"));
  EXPECT_THAT(gptq_module(gptq("")).add("m.weight", F16, {3, 40}).codes(),
              ElementsAre("unknown_companion"));
}

TEST(QuantisedGptq, ConfigsOfAnotherFormAreRefused) {
  for (const char* json :
       {R"({"quant_method": "gptq", "bits": 3, "group_size": 16})",
        R"({"quant_method": "gptq", "group_size": 16})", R"({"quant_method": "gptq", "bits": 4})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": 0})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": -2})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": "no"})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "checkpoint_format": "marlin"})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "is_marlin_format": true})",
        R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "dynamic": {"+:m": {"bits": 8}}})",
        R"({"quant_method": "awq", "bits": 8, "group_size": 16})",
        R"({"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemv"})",
        R"({"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": false})"}) {
    const auto found = gptq_module(quantised_by(json)).find();
    EXPECT_THAT(found.tensors, IsEmpty()) << json;
    ASSERT_FALSE(found.findings.empty()) << json;
    EXPECT_EQ(found.findings[0].code, "unknown_scheme") << json;
  }
}

TEST(QuantisedAwq, WordsAlongTheColumnsAreTransposed) {
  const auto found =
      QuantisedCase(quantised_by(R"({"quant_method": "awq", "bits": 4, "group_size": 16,
                                     "version": "GEMM", "zero_point": true})"))
          .add("m.qweight", I32, {40, 2})
          .add("m.qzeros", I32, {3, 2})
          .add("m.scales", F16, {3, 16})
          .find();
  EXPECT_THAT(found.findings, IsEmpty());
  ASSERT_THAT(found.tensors, SizeIs(1));
  const QuantisedTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.codec.format, BlockFormat::awq);
  EXPECT_EQ(tensor.codec.zero_bias, 0);
  EXPECT_EQ(tensor.codec.block_rows, 16);
  EXPECT_EQ(tensor.coded_shape, (Shape{40, 16}));
  EXPECT_EQ(tensor.layout.shape(), (Shape{16, 40}));
}

}  // namespace
}  // namespace weightloom
