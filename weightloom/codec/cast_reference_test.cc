#include "weightloom/codec/cast_reference.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "weightloom/codec/cast_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

struct Case {
  DType from;
  DType to;
  uint64_t in;
  uint64_t out;
  const char* what;
};

// Worked out by hand from IEEE 754.
constexpr Case kCases[] = {
    {DType::F32, DType::BF16, 0x3f800000, 0x3f80, "1"},
    {DType::F32, DType::BF16, 0x3f808000, 0x3f80, "tie, even stays"},
    {DType::F32, DType::BF16, 0x3f818000, 0x3f82, "tie, odd goes up"},
    {DType::F32, DType::BF16, 0x3f808001, 0x3f81, "just above a tie"},
    {DType::F32, DType::BF16, 0x3f807fff, 0x3f80, "just below a tie"},
    {DType::F32, DType::BF16, 0xbf818000, 0xbf82, "negative tie"},
    {DType::F32, DType::BF16, 0x3fffffff, 0x4000, "carries into the exponent"},
    {DType::F32, DType::BF16, 0x7f7f7fff, 0x7f7f, "largest that stays finite"},
    {DType::F32, DType::BF16, 0x7f7f8000, 0x7f80, "smallest that becomes infinite"},
    {DType::F32, DType::BF16, 0xff7fffff, 0xff80, "largest negative"},
    {DType::F32, DType::BF16, 0x7f800000, 0x7f80, "infinity"},
    {DType::F32, DType::BF16, 0x80000000, 0x8000, "negative zero"},
    {DType::F32, DType::BF16, 0x00000001, 0x0000, "least subnormal"},
    {DType::F32, DType::BF16, 0x00008000, 0x0000, "tie with zero"},
    {DType::F32, DType::BF16, 0x00008001, 0x0001, "to a subnormal"},
    {DType::F32, DType::BF16, 0x007f8000, 0x0080, "a subnormal becomes normal"},
    {DType::F32, DType::BF16, 0x7f800001, 0x7fc0, "a signalling NaN whose payload is cut off"},
    {DType::F32, DType::BF16, 0xffabcdef, 0xffeb, "a NaN keeps sign and top payload bits"},
    {DType::F32, DType::F16, 0x3f800000, 0x3c00, "1"},
    {DType::F32, DType::F16, 0x477fe000, 0x7bff, "65504, the largest"},
    {DType::F32, DType::F16, 0x477fefff, 0x7bff, "below 65520"},
    {DType::F32, DType::F16, 0x477ff000, 0x7c00, "65520 becomes infinite"},
    {DType::F32, DType::F16, 0x3f801000, 0x3c00, "tie, even stays"},
    {DType::F32, DType::F16, 0x3f803000, 0x3c02, "tie, odd goes up"},
    {DType::F32, DType::F16, 0x38800000, 0x0400, "2^-14, the least normal"},
    {DType::F32, DType::F16, 0x387fffff, 0x0400, "just below it rounds up to it"},
    {DType::F32, DType::F16, 0x387fc000, 0x03ff, "the largest subnormal"},
    {DType::F32, DType::F16, 0x33800000, 0x0001, "2^-24, the least subnormal"},
    {DType::F32, DType::F16, 0x33000000, 0x0000, "2^-25, a tie with zero"},
    {DType::F32, DType::F16, 0x33000001, 0x0001, "just above it"},
    {DType::F32, DType::F16, 0x33c00000, 0x0002, "1.5 steps: a tie, to even"},
    {DType::F32, DType::F16, 0x80000001, 0x8000, "a negative subnormal becomes -0"},
    {DType::F32, DType::F16, 0x7fc00000, 0x7e00, "NaN"},
    {DType::F32, DType::F16, 0xff802000, 0xfe01, "a signalling NaN is made quiet"},
    {DType::F32, DType::F64, 0x00000001, 0x36a0000000000000, "2^-149"},
    {DType::F32, DType::F64, 0x807fffff, 0xb80fffffc0000000, "largest subnormal, negative"},
    {DType::F32, DType::F64, 0x3fc00000, 0x3ff8000000000000, "1.5"},
    {DType::F32, DType::F64, 0xff800000, 0xfff0000000000000, "-infinity"},
    {DType::F32, DType::F64, 0x7f800001, 0x7ff8000020000000, "a signalling NaN"},
    {DType::F16, DType::F32, 0x0001, 0x33800000, "2^-24"},
    {DType::F16, DType::F32, 0x83ff, 0xb87fc000, "largest subnormal, negative"},
    {DType::F16, DType::F32, 0x7bff, 0x477fe000, "65504"},
    {DType::F16, DType::F32, 0x7c00, 0x7f800000, "infinity"},
    {DType::F16, DType::F32, 0x7c01, 0x7fc02000, "a signalling NaN"},
    {DType::F16, DType::F32, 0x8000, 0x80000000, "-0"},
    {DType::F16, DType::F64, 0x3555, 0x3fd5540000000000, "nearly a third"},
    {DType::F16, DType::BF16, 0x7bff, 0x4780, "65504 becomes 65536"},
    {DType::F16, DType::BF16, 0x0001, 0x3380, "2^-24"},
    {DType::F16, DType::BF16, 0x3c04, 0x3f80, "tie, even stays"},
    {DType::F16, DType::BF16, 0x3c0c, 0x3f82, "tie, odd goes up"},
    {DType::BF16, DType::F32, 0x0001, 0x00010000, "a subnormal"},
    {DType::BF16, DType::F32, 0x7f81, 0x7fc10000, "a signalling NaN"},
    {DType::BF16, DType::F16, 0x4780, 0x7c00, "65536 becomes infinite"},
    {DType::BF16, DType::F16, 0x477f, 0x7bf8, "65280 stays"},
    {DType::BF16, DType::F16, 0x3300, 0x0000, "2^-25, a tie with zero"},
    {DType::BF16, DType::F16, 0x3301, 0x0001, "just above it"},
    {DType::BF16, DType::F64, 0x0080, 0x3810000000000000, "2^-126"},
    {DType::F64, DType::F32, 0x3ff0000010000000, 0x3f800000, "tie, even stays"},
    {DType::F64, DType::F32, 0x3ff0000030000000, 0x3f800002, "tie, odd goes up"},
    {DType::F64, DType::F32, 0x3ff0000010000001, 0x3f800001, "just above a tie"},
    {DType::F64, DType::F32, 0x47efffffefffffff, 0x7f7fffff, "largest that stays finite"},
    {DType::F64, DType::F32, 0x47effffff0000000, 0x7f800000, "smallest that becomes infinite"},
    {DType::F64, DType::F32, 0x3690000000000000, 0x00000000, "2^-150, a tie with zero"},
    {DType::F64, DType::F32, 0x3690000000000001, 0x00000001, "just above it"},
    {DType::F64, DType::F32, 0x0000000000000001, 0x00000000, "least subnormal"},
    // Twice rounded, by way of F32, these end elsewhere.
    {DType::F64, DType::F16, 0x3ff0020000000001, 0x3c01, "a tie only after rounding to F32"},
    {DType::F64, DType::F16, 0x3ff001ffffffffff, 0x3c00, "below the tie"},
    {DType::F64, DType::F16, 0x3ff0060000000000 - 1, 0x3c01, "rounded to F32 an odd tie"},
    {DType::F64, DType::F16, 0x3e60000000000001, 0x0001, "above 2^-25 by less than F32 sees"},
    {DType::F64, DType::F16, 0x40effdffffffffff, 0x7bff, "below 65520 by less than F32 sees"},
    {DType::F64, DType::F16, 0x40effe0000000000, 0x7c00, "65520"},
    {DType::F64, DType::BF16, 0x3ff0100000000001, 0x3f81, "a tie only after rounding to F32"},
    {DType::F64, DType::BF16, 0x3ff0300000000000 - 1, 0x3f81, "rounded to F32 an odd tie"},
    {DType::F64, DType::BF16, 0x3790000000000001, 0x0001, "above 2^-134, in F32's subnormals"},
    {DType::F64, DType::BF16, 0x47efefffffffffff, 0x7f7f, "largest that stays finite"},
    {DType::F64, DType::BF16, 0x47eff00000000000, 0x7f80, "smallest that becomes infinite"},
    {DType::F64, DType::BF16, 0xfff0000000000001, 0xffc0, "a negative signalling NaN"},
    {DType::F32, DType::F8_E4M3, 0x3f800000, 0x38, "1"},
    {DType::F32, DType::F8_E4M3, 0x43e00000, 0x7e, "448, the largest"},
    {DType::F32, DType::F8_E4M3, 0x43f80000, 0x7e, "496 is cut to 448"},
    {DType::F32, DType::F8_E4M3, 0xff800000, 0xfe, "-infinity is cut to -448"},
    {DType::F32, DType::F8_E4M3, 0x7f800001, 0x7f, "NaN"},
    {DType::F32, DType::F8_E4M3, 0x3b000000, 0x01, "2^-9, the least subnormal"},
    {DType::F32, DType::F8_E4M3, 0x3a800000, 0x00, "2^-10, a tie with zero"},
    {DType::F32, DType::F8_E4M3, 0x3f880000, 0x38, "1.0625, tie, even stays"},
    {DType::F32, DType::F8_E4M3, 0x3f980000, 0x3a, "1.1875, tie, odd goes up"},
    {DType::F32, DType::F8_E5M2, 0x47600000, 0x7b, "57344, the largest"},
    {DType::F32, DType::F8_E5M2, 0x47700000, 0x7c, "61440 becomes infinite"},
    {DType::F32, DType::F8_E5M2, 0x476fffff, 0x7b, "just below it"},
    {DType::F32, DType::F8_E5M2, 0xffc00000, 0xff, "a negative NaN"},
    {DType::F8_E4M3, DType::F32, 0x7f, 0x7fc00000, "NaN"},
    {DType::F8_E4M3, DType::F32, 0x81, 0xbb000000, "-2^-9"},
    {DType::F8_E4M3, DType::F16, 0x7e, 0x5f00, "448"},
    {DType::F8_E5M2, DType::BF16, 0x7c, 0x7f80, "infinity"},
    {DType::F8_E5M2, DType::F16, 0x01, 0x0100, "2^-16"},
    {DType::F8_E5M2, DType::F8_E4M3, 0x7c, 0x7e, "infinity is cut to 448"},
    {DType::F64, DType::F64, 0x7ff0000000000001, 0x7ff0000000000001, "equal dtypes: untouched"},
};

TEST(CastReferenceTest, HardCasesAreAsWorkedOutByHand) {
  for (const Case& c : kCases) {
    EXPECT_EQ(cast_bits(c.from, c.to, c.in), c.out)
        << to_string(c.from) << " to " << to_string(c.to) << ": " << c.what << std::hex << ", 0x"
        << c.in << " gave 0x" << cast_bits(c.from, c.to, c.in) << ", not 0x" << c.out;
  }
}

// The processor converts between float and double, exactly rounded.
TEST(CastReferenceTest, F64ToF32AndBackAreTheProcessors) {
  uint64_t seed = testing::test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  auto patterns = testing::random_patterns(DType::F64, 200'000, seed);
  const auto hard = testing::hard_patterns(DType::F64, DType::F32, seed);
  patterns.insert(patterns.end(), hard.begin(), hard.end());
  for (uint64_t pattern : patterns) {
    const auto value = std::bit_cast<double>(pattern);
    if (std::isnan(value)) continue;
    const auto narrow = std::bit_cast<uint32_t>(static_cast<float>(value));
    ASSERT_EQ(cast_bits(DType::F64, DType::F32, pattern), narrow) << value;
    const auto wide = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(narrow)));
    ASSERT_EQ(cast_bits(DType::F32, DType::F64, narrow), wide) << value;
  }
}

TEST(CastReferenceTest, WhatWasWidenedComesBackAsItWas) {
  for (DType narrow : {DType::F16, DType::BF16}) {
    for (DType wide : {DType::F32, DType::F64}) {
      for (uint64_t pattern : testing::all_patterns(narrow)) {
        const uint64_t rest = pattern & 0x7fff;
        const FloatFormat format = float_format(narrow);
        const uint64_t quiet = rest > format.infinity() ? pattern | format.quiet_bit() : pattern;
        ASSERT_EQ(cast_bits(wide, narrow, cast_bits(narrow, wide, pattern)), quiet);
      }
    }
  }
}

TEST(CastReferenceTest, OnlyFiniteValuesThatBecameInfiniteAreCounted) {
  const float in[] = {1e38F, -1e5F, HUGE_VALF, NAN, 1.0F};
  uint16_t out[5];
  EXPECT_EQ(cast_reference(DType::F32, DType::F16, reinterpret_cast<const std::byte*>(in),
                           reinterpret_cast<std::byte*>(out), 5),
            2);
}

}  // namespace
}  // namespace weightloom
