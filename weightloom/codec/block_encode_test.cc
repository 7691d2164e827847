// Encoding: the vectors against the reference, and values against their way there and back.
#include <bit>
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

/// Scales of F8 that are powers of two settle with the second encoding.
bool settles_later(const BlockCodec& codec) {
  return codec.format == BlockFormat::fp8 && codec.scale_dtype != DType::F32;
}

std::vector<std::byte> values_of(const BlockCodec& codec, const ValueBox& box, const Encoded& made,
                                 DType dtype) {
  std::vector<Matrix> operands = operands_for(codec, box);
  for (size_t i = 0; i < operands.size(); ++i) operands[i].bytes = made.operands[i];
  return decoded_by(decode, codec, box, operands, dtype).bytes;
}

/// By way of `dtype`, values stay, and codes and scales do from the first time on, or the second.
void expect_stable(const BlockCodec& codec, const ValueBox& box, const Encoded& first,
                   DType dtype) {
  const Encoded second = again(codec, box, first, dtype);
  EXPECT_EQ(values_of(codec, box, second, dtype), values_of(codec, box, first, dtype));
  EXPECT_EQ(settles_later(codec) ? again(codec, box, second, dtype) : first, second);
}

TEST_P(EncodeTest, WhatWasEncodedOfBf16IsEncodedAlikeAfterItWasDecoded) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox box{0, rows, 0, cols};
  for (int round = 0; round < 20; ++round) {
    const auto values = bytes_of(numbers(Kind::bf16, rows * cols, seed));
    expect_stable(codec, box, encoded_by(encode, codec, box, values), DType::BF16);
  }
}

TEST_P(EncodeTest, WhatWasEncodedWithPowersOfTwoIsEncodedAlikeAfterItWasDecoded) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  if (codec.scale_dtype == DType::F32) return;
  const ValueBox box{0, rows, 0, cols};
  for (int round = 0; round < 20; ++round) {
    const auto values = bytes_of(numbers(Kind::ordinary, rows * cols, seed));
    expect_stable(codec, box, encoded_by(encode, codec, box, values), DType::F32);
  }
}

/// All that finite codes stand for, as fractions of the largest.
std::vector<float> fractions_of(DType codes, float most) {
  std::vector<float> fractions;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    float value = 0;
    cast(codes, DType::F32, &byte, reinterpret_cast<std::byte*>(&value), 1);
    if (std::isfinite(value)) fractions.push_back(value / most);
  }
  return fractions;
}

// Every maximum that a block of BF16 can have, with a value for every code beside it.
TEST(EncodeLawTest, EveryMaximumOfBf16ComesBack) {
  for (DType codes : {DType::F8_E4M3, DType::F8_E5M2}) {
    const BlockCodec codec = floats8(codes, DType::F32, 1, kEntireDim);
    const auto fractions = fractions_of(codes, codes == DType::F8_E4M3 ? 448.0F : 57344.0F);
    const ValueBox box{0, 1, 0, std::ssize(fractions)};
    std::vector<float> values(fractions.size());
    std::vector<std::byte> halves(fractions.size() * 2);
    for (uint32_t pattern = 1; pattern < 0x7f80; ++pattern) {
      const auto amax = std::bit_cast<float>(pattern << 16);
      for (size_t i = 0; i < values.size(); ++i) values[i] = fractions[i] * amax;
      auto bytes = bytes_of(values);
      cast(DType::F32, DType::BF16, bytes.data(), halves.data(), box.cols());
      cast(DType::BF16, DType::F32, halves.data(), bytes.data(), box.cols());
      const Encoded first = encoded_by(encode, codec, box, bytes);
      ASSERT_EQ(again(codec, box, first, DType::BF16), first) << std::hex << pattern;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EncodeTest, ::testing::ValuesIn(encodable_cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace weightloom
