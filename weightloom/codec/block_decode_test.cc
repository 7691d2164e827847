// The vectors of decode against the reference, with every instruction set that this processor has.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "weightloom/codec/block_codec_testing.h"
#include "weightloom/codec/codec_cases_testing.h"
#include "weightloom/codec/targets_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using namespace testing;

constexpr DType kOutputs[] = {DType::BF16, DType::F32, DType::F16, DType::F64};

class DecodeTest : public ::testing::TestWithParam<CodecCase> {};

void expect_as_reference(const BlockCodec& codec, const ValueBox& box, std::vector<Matrix>& parts,
                         int64_t gap) {
  for (DType dtype : kOutputs) {
    const Decoded expected = decoded_by(decode_reference, codec, box, parts, dtype, gap);
    with_each_target([&] {
      const Decoded made = decoded_by(decode, codec, box, parts, dtype, gap);
      EXPECT_EQ(made.not_finite, expected.not_finite) << to_string(dtype);
      EXPECT_EQ(made.bytes, expected.bytes) << to_string(dtype);
    });
  }
}

TEST_P(DecodeTest, WholeMatricesAreDecodedAsTheReferenceDecodes) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox box{0, rows, 0, cols};
  for (bool tame : {true, false}) {
    std::vector<Matrix> whole = random_operands(codec, box, tame, seed);
    expect_as_reference(codec, box, whole, 0);
  }
}

TEST_P(DecodeTest, BoxesGiveWhatTheWholeHasThere) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox all{0, rows, 0, cols};
  std::vector<Matrix> whole = random_operands(codec, all, true, seed);
  const Decoded values = decoded_by(decode_reference, codec, all, whole, DType::F32);
  for (int round = 0; round < 20; ++round) {
    const ValueBox box = random_box(decode_granule(codec), rows, cols, seed);
    std::vector<Matrix> parts = cut(codec, whole, box);
    const Decoded made = decoded_by(decode, codec, box, parts, DType::F32, 5);
    for (int64_t row = 0; row < box.rows(); ++row) {
      const std::byte* line = made.bytes.data() + row * (box.cols() * 4 + 5);
      const int64_t at = (box.row_begin + row) * cols + box.col_begin;
      ASSERT_EQ(
          std::memcmp(line, values.bytes.data() + at * 4, static_cast<size_t>(box.cols()) * 4), 0)
          << "row " << row << " of rows " << box.row_begin << " to " << box.row_end << ", columns "
          << box.col_begin << " to " << box.col_end;
      for (int i = 0; i < 5; ++i) ASSERT_EQ(line[box.cols() * 4 + i], std::byte{0xee});
    }
    if (round < 4) expect_as_reference(codec, box, parts, 5);
  }
}

TEST_P(DecodeTest, AnEmptyBoxTouchesNothing) {
  const CodecCase& param = GetParam();
  const ValueBox box{0, 0, 0, 0};
  std::vector<Matrix> none = operands_for(param.codec, box);
  EXPECT_EQ(decoded_by(decode, param.codec, box, none, DType::BF16), Decoded{});
}

INSTANTIATE_TEST_SUITE_P(Formats, DecodeTest, ::testing::ValuesIn(codec_cases()),
                         [](const auto& param) { return param.param.name; });

#if defined(__SSE__)
TEST_P(DecodeTest, SubnormalsStayWhenTheProcessorIsToldToFlushThem) {
  uint64_t seed = test_seed();
  const auto [name, codec, rows, cols] = GetParam();
  const ValueBox box{0, rows, 0, cols};
  std::vector<Matrix> whole = random_operands(codec, box, false, seed);
  const Decoded expected = decoded_by(decode, codec, box, whole, DType::F32);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0xe040);  // flush to zero, denormals are zero, round towards zero
  const Decoded made = decoded_by(decode, codec, box, whole, DType::F32);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xe040, 0xe040U);
  EXPECT_EQ(made, expected);
}
#endif

}  // namespace
}  // namespace weightloom
