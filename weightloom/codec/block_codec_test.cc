// Shapes of block codecs by hand, and what their references give, by hand.
#include "weightloom/codec/block_codec.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/codec/codec_cases_testing.h"

namespace weightloom {
namespace {

using namespace testing;

void expect_box(const ValueBox& box, const ValueBox& expected) {
  EXPECT_EQ(box.row_begin, expected.row_begin);
  EXPECT_EQ(box.row_end, expected.row_end);
  EXPECT_EQ(box.col_begin, expected.col_begin);
  EXPECT_EQ(box.col_end, expected.col_end);
}

TEST(BlockCodecTest, AScaleLiesBesideEveryBlockThatABoxTouches) {
  const auto operands = operands_of(floats8(DType::F8_E4M3, DType::F32, 128, 128));
  ASSERT_EQ(operands.size(), 2U);
  EXPECT_EQ(operands[1], (CodecOperand{OperandRole::scales, DType::F32, {128, 1}, {128, 1}}));
  expect_box(operand_box(operands[0], {100, 130, 127, 200}), {100, 130, 127, 200});
  expect_box(operand_box(operands[1], {100, 130, 127, 200}), {0, 2, 0, 2});
  expect_box(operand_box(operands[1], {128, 130, 128, 200}), {1, 2, 1, 2});
}

TEST(BlockCodecTest, TwoNibblesShareAByteAndThirtyTwoAScale) {
  const auto operands = operands_of(floats4(DType::F8_E4M3, 16, GlobalScale::divides));
  ASSERT_EQ(operands.size(), 3U);
  expect_box(operand_box(operands[0], {2, 5, 6, 49}), {2, 5, 3, 25});
  expect_box(operand_box(operands[1], {2, 5, 6, 49}), {2, 5, 0, 4});
  EXPECT_EQ(operands[2].role, OperandRole::global_scale);
  expect_box(operand_box(operands[2], {2, 5, 6, 49}), {0, 1, 0, 1});
}

TEST(BlockCodecTest, ZeroPointsOfPackedLieInWordsAlongTheRows) {
  const auto operands = operands_of(words(BlockFormat::packed, DType::F16, 4, 1, 32, true));
  ASSERT_EQ(operands.size(), 3U);
  EXPECT_EQ(operands[2], (CodecOperand{OperandRole::zero_points, DType::I32, {8, 1}, {32, 1}}));
  expect_box(operand_box(operands[0], {3, 9, 8, 40}), {3, 9, 1, 5});
  expect_box(operand_box(operands[2], {3, 9, 8, 40}), {0, 2, 0, 2});
}

TEST(BlockCodecTest, GptqPacksRowsAndItsZerosColumns) {
  const auto operands = operands_of(gptq_like(4, 1, true));
  ASSERT_EQ(operands.size(), 4U);
  expect_box(operand_box(operands[0], {8, 24, 3, 5}), {1, 3, 3, 5});
  expect_box(operand_box(operands[1], {8, 24, 3, 5}), {0, 4, 3, 5});  // all groups
  expect_box(operand_box(operands[2], {8, 24, 3, 9}), {0, 4, 0, 2});
  expect_box(operand_box(operands[3], {8, 24, 3, 5}), {8, 24, 0, 1});
}

TEST(BlockCodecTest, GgufBlocksLieInBytesOfTheRow) {
  const auto operands = operands_of(gguf(BlockFormat::q6_k));
  ASSERT_EQ(operands.size(), 1U);
  expect_box(operand_box(operands[0], {1, 2, 256, 768}), {1, 2, 210, 630});
}

TEST(BlockCodecTest, GranulesAreWordsToDecodeAndBlocksToEncode) {
  EXPECT_EQ(decode_granule(floats8(DType::F8_E4M3, DType::F32, 128, 128)), (Granule{1, 1}));
  EXPECT_EQ(encode_granule(floats8(DType::F8_E4M3, DType::F32, 128, 96)), (Granule{128, 96}));
  EXPECT_EQ(encode_granule(floats8(DType::F8_E4M3, DType::F32, 1, kEntireDim)),
            (Granule{1, kEntireDim}));
  EXPECT_EQ(decode_granule(floats4(DType::U8, 32, GlobalScale::none)), (Granule{1, 2}));
  EXPECT_EQ(decode_granule(gptq_like(8, 1, false)), (Granule{4, 1}));
  EXPECT_EQ(decode_granule(words(BlockFormat::awq, DType::F16, 4, 16, 1, true)), (Granule{1, 8}));
  EXPECT_EQ(decode_granule(gguf(BlockFormat::q2_k)), (Granule{1, 256}));
}

TEST(BlockCodecTest, OnlyFloatsOfFourAndEightBitsAreEncoded) {
  EXPECT_TRUE(can_encode(floats8(DType::F8_E4M3, DType::F32, 128, 128)));
  EXPECT_TRUE(can_encode(floats4(DType::F8_E8M0, 32, GlobalScale::none)));
  EXPECT_FALSE(can_encode(floats8(DType::F8_E4M3, DType::BF16, 128, 128)));
  EXPECT_FALSE(can_encode(floats4(DType::F8_E4M3, 16, GlobalScale::multiplies)));
  EXPECT_FALSE(can_encode(gguf(BlockFormat::q8_0)));
}

std::vector<float> row_of(const BlockCodec& codec, std::vector<std::vector<uint8_t>> operands,
                          int64_t cols) {
  std::vector<OperandView> views;
  for (auto& operand : operands) {
    views.push_back({reinterpret_cast<const std::byte*>(operand.data()), std::ssize(operand)});
  }
  std::vector<float> values(static_cast<size_t>(cols));
  decode_reference(codec, {0, 1, 0, cols}, views,
                   {DType::F32, reinterpret_cast<std::byte*>(values.data()), cols * 4});
  return values;
}

TEST(BlockCodecReferenceTest, CodesOfF8AreMultipliedByTheirScale) {
  const BlockCodec codec = floats8(DType::F8_E4M3, DType::U8, 1, kEntireDim);
  // 1, -448, the least subnormal (2^-9), -0, NaN; the scale is 2^(128 - 127).
  const auto values = row_of(codec, {{0x38, 0xfe, 0x01, 0x80, 0x7f}, {128}}, 5);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], -896);
  EXPECT_EQ(values[2], 1.0F / 256);
  EXPECT_TRUE(values[3] == 0 && std::signbit(values[3]));
  EXPECT_TRUE(std::isnan(values[4]));
}

TEST(BlockCodecReferenceTest, NibblesOfMxfp4ComeLowFirst) {
  const BlockCodec codec = floats4(DType::U8, 32, GlobalScale::none);
  const auto values = row_of(codec, {{0x21, 0xf7, 0x90}, {126}}, 6);
  EXPECT_EQ(values, (std::vector<float>{0.25F, 0.5F, 3, -3, 0, -0.25F}));
  EXPECT_EQ(row_of(codec, {{0x01}, {0}}, 2)[0], 0x1p-128F);
  EXPECT_EQ(row_of(codec, {{0x03}, {254}}, 2)[0], 0x1.8p127F);
  EXPECT_TRUE(std::isnan(row_of(codec, {{0x00}, {255}}, 2)[0]));
}

TEST(BlockCodecReferenceTest, FieldsOfAwqStandForEvenColumnsThenOddOnes) {
  const BlockCodec codec = words(BlockFormat::awq, DType::F16, 4, 16, 1, false);
  std::vector<uint8_t> ones;
  for (int i = 0; i < 8; ++i) ones.insert(ones.end(), {0x00, 0x3c});
  const auto values = row_of(codec, {{0x10, 0x32, 0x54, 0x76}, ones}, 8);
  EXPECT_EQ(values, (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(BlockCodecReferenceTest, AnIndexOfNoGroupGivesNaN) {
  BlockCodec codec = gptq_like(8, 0, true);
  codec.zero_points = false;
  codec.groups = 1;
  const auto values = row_of(codec, {{5, 0, 0, 0}, {0x00, 0x3c}, {1, 0, 0, 0}}, 1);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(row_of(codec, {{5, 0, 0, 0}, {0x00, 0x3c}, {0, 0, 0, 0}}, 1)[0], 5);
}

}  // namespace
}  // namespace weightloom
