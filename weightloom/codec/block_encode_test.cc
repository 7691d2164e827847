// Encoding: the vectors against the reference, and values against their way there and back.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/codec/block_codec_testing.h"
#include "weightloom/codec/codec_cases_testing.h"
#include "weightloom/codec/targets_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using namespace testing;

std::vector<CodecCase> encodable_cases() {
  return {
      {"fp8_block", floats8(DType::F8_E4M3, DType::F32, 128, 128), 130, 200},
      {"fp8_block_e8m0", floats8(DType::F8_E4M3, DType::F8_E8M0, 128, 128), 130, 200},
      {"fp8_e5m2_block", floats8(DType::F8_E5M2, DType::F32, 16, 48), 37, 131},
      {"fp8_tensor", floats8(DType::F8_E4M3, DType::F32, kEntireDim, kEntireDim), 7, 77},
      {"fp8_channel", floats8(DType::F8_E4M3, DType::F32, 1, kEntireDim), 9, 1031},
      {"fp8_columns", floats8(DType::F8_E4M3, DType::F32, kEntireDim, 1), 5, 40},
      {"mxfp8", floats8(DType::F8_E4M3, DType::U8, 1, 32), 11, 1090},
      {"mxfp4", floats4(DType::U8, 32, GlobalScale::none), 40, 1121},
      {"mxfp4_e8m0", floats4(DType::F8_E8M0, 32, GlobalScale::none), 3, 96},
  };
}

class EncodeTest : public ::testing::TestWithParam<CodecCase> {};

enum class Kind { ordinary, bf16, any_finite, any };

/// Numbers of ordinary size (with zeros and ties among them), of BF16, of every size, or any.
std::vector<float> numbers(Kind kind, int64_t count, uint64_t& seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const uint64_t draw = next_random(seed);
    const float quarter = static_cast<float>(draw % 64) / 4.0F - 8.0F;
    const float ordinary = static_cast<float>(static_cast<int32_t>(draw)) * 1e-11F;
    value = draw >> 60 == 0 ? quarter : ordinary;
    const auto pattern = static_cast<uint32_t>(draw >> 32);
    if (kind == Kind::bf16) {
      uint32_t upper = 0;
      std::memcpy(&upper, &value, sizeof(upper));
      upper &= 0xffff0000U;
      std::memcpy(&value, &upper, sizeof(value));
    }
    if (kind == Kind::any || (kind == Kind::any_finite && (pattern & 0x7f800000U) != 0x7f800000U)) {
      std::memcpy(&value, &pattern, sizeof(value));
    }
  }
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_P(EncodeTest, ValuesAreEncodedAsTheReferenceEncodes) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox box{0, rows, 0, cols};
  for (Kind kind : {Kind::ordinary, Kind::bf16, Kind::any_finite, Kind::any}) {
    const auto values = bytes_of(numbers(kind, rows * cols, seed));
    const Encoded expected = encoded_by(encode_reference, codec, box, values);
    with_each_target([&] {
      const Encoded made = encoded_by(encode, codec, box, values);
      EXPECT_EQ(made.not_finite, expected.not_finite);
      EXPECT_EQ(made.operands, expected.operands) << "kind " << static_cast<int>(kind);
    });
  }
}

TEST_P(EncodeTest, BoxesOfWholeBlocksGiveWhatTheWholeHasThere) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox all{0, rows, 0, cols};
  const std::vector<float> values = numbers(Kind::any, rows * cols, seed);
  std::vector<Matrix> whole = operands_for(codec, all);
  encode_reference(codec, all, {reinterpret_cast<const std::byte*>(values.data()), cols * 4},
                   spans_of(whole));
  for (int round = 0; round < 10; ++round) {
    const ValueBox box = random_box(encode_granule(codec), rows, cols, seed);
    std::vector<Matrix> expected = cut(codec, whole, box);
    std::vector<Matrix> made = operands_for(codec, box);
    const float* first = values.data() + box.row_begin * cols + box.col_begin;
    encode(codec, box, {reinterpret_cast<const std::byte*>(first), cols * 4}, spans_of(made));
    for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].bytes, expected[i].bytes);
  }
}

Encoded again(const BlockCodec& codec, const ValueBox& box, const Encoded& first, DType dtype) {
  std::vector<Matrix> operands = operands_for(codec, box);
  for (size_t i = 0; i < operands.size(); ++i) operands[i].bytes = first.operands[i];
  const Decoded values = decoded_by(decode, codec, box, operands, dtype);
  std::vector<std::byte> floats(static_cast<size_t>(box.rows() * box.cols()) * 4);
  cast(dtype, DType::F32, values.bytes.data(), floats.data(), box.rows() * box.cols());
  return encoded_by(encode, codec, box, floats);
}

TEST_P(EncodeTest, WhatWasEncodedOfBf16IsEncodedAlikeAfterItWasDecoded) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox box{0, rows, 0, cols};
  for (int round = 0; round < 20; ++round) {
    const auto values = bytes_of(numbers(Kind::bf16, rows * cols, seed));
    const Encoded first = encoded_by(encode, codec, box, values);
    EXPECT_EQ(again(codec, box, first, DType::BF16), first);
  }
}

TEST_P(EncodeTest, WhatWasEncodedWithPowersOfTwoIsEncodedAlikeAfterItWasDecoded) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  if (codec.scale_dtype == DType::F32) return;
  const ValueBox box{0, rows, 0, cols};
  for (Kind kind : {Kind::ordinary, Kind::any_finite}) {
    const auto values = bytes_of(numbers(kind, rows * cols, seed));
    const Encoded first = encoded_by(encode, codec, box, values);
    EXPECT_EQ(again(codec, box, first, DType::F32), first) << static_cast<int>(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EncodeTest, ::testing::ValuesIn(encodable_cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace weightloom
