#include "weightloom/codec/values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

template <typename Word>
double value_of(DType dtype, Word word) {
  std::byte bytes[sizeof(word) + 1];  // one byte off any alignment
  std::memcpy(bytes + 1, &word, sizeof(word));
  double value = -1;
  to_double(dtype, std::span(bytes).subspan(1), {&value, 1});
  return value;
}

double value_of_byte(DType dtype, int byte) { return value_of(dtype, static_cast<uint8_t>(byte)); }

TEST(ValuesTest, IntegersOfEveryWidthAreThemselves) {
  EXPECT_EQ(value_of<uint8_t>(DType::U8, 255), 255);
  EXPECT_EQ(value_of<int8_t>(DType::I8, -128), -128);
  EXPECT_EQ(value_of<uint16_t>(DType::U16, 65535), 65535);
  EXPECT_EQ(value_of<int16_t>(DType::I16, -32768), -32768);
  EXPECT_EQ(value_of<uint32_t>(DType::U32, 4294967295U), 4294967295.0);
  EXPECT_EQ(value_of<int32_t>(DType::I32, -2147483647), -2147483647.0);
  EXPECT_EQ(value_of<int64_t>(DType::I64, -9007199254740991), -9007199254740991.0);
  EXPECT_EQ(value_of<uint64_t>(DType::U64, ~uint64_t{0}), 18446744073709551616.0) << "rounded";
}

TEST(ValuesTest, EveryByteButZeroIsTrue) {
  EXPECT_EQ(value_of_byte(DType::BOOL, 0), 0);
  EXPECT_EQ(value_of_byte(DType::BOOL, 1), 1);
  EXPECT_EQ(value_of_byte(DType::BOOL, 2), 1);
}

TEST(ValuesTest, CastableDtypesAreTheirValues) {
  EXPECT_EQ(value_of<uint16_t>(DType::F16, 0x3555), 0.333251953125);
  EXPECT_EQ(value_of<uint16_t>(DType::BF16, 0xbf80), -1);
  EXPECT_EQ(value_of(DType::F32, 0.1F), 0.100000001490116119384765625);
  EXPECT_EQ(value_of(DType::F64, 0.1), 0.1);
}

// From the OCP 8-bit floating point specification, table 1.
TEST(ValuesTest, E4M3HasNoInfinityAndGoesTo448) {
  EXPECT_EQ(value_of_byte(DType::F8_E4M3, 0x7e), 448);
  EXPECT_EQ(value_of_byte(DType::F8_E4M3, 0x08), 0.015625);
  EXPECT_EQ(value_of_byte(DType::F8_E4M3, 0x01), 0.001953125);
  EXPECT_EQ(value_of_byte(DType::F8_E4M3, 0xb8), -1);
  EXPECT_TRUE(std::signbit(value_of_byte(DType::F8_E4M3, 0x80)));
  EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E4M3, 0x7f)));
  EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E4M3, 0xff)));
}

TEST(ValuesTest, E5M2FollowsIeeeAndGoesTo57344) {
  EXPECT_EQ(value_of_byte(DType::F8_E5M2, 0x7b), 57344);
  EXPECT_EQ(value_of_byte(DType::F8_E5M2, 0x01), std::ldexp(1, -16));
  EXPECT_EQ(value_of_byte(DType::F8_E5M2, 0xfc), -std::numeric_limits<double>::infinity());
  for (int nan : {0x7d, 0x7e, 0x7f, 0xfd}) {
    EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E5M2, nan)));
  }
}

// From "8-bit Numerical Formats for Deep Neural Networks": bias one more, one zero, one NaN.
TEST(ValuesTest, TheFnuzTypesAreFiniteWithOneNan) {
  EXPECT_EQ(value_of_byte(DType::F8_E4M3FNUZ, 0x7f), 240);
  EXPECT_EQ(value_of_byte(DType::F8_E4M3FNUZ, 0x40), 1);
  EXPECT_EQ(value_of_byte(DType::F8_E4M3FNUZ, 0x01), std::ldexp(1, -10));
  EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E4M3FNUZ, 0x80)));
  EXPECT_EQ(value_of_byte(DType::F8_E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(value_of_byte(DType::F8_E5M2FNUZ, 0x40), 1);
  EXPECT_EQ(value_of_byte(DType::F8_E5M2FNUZ, 0x01), std::ldexp(1, -17));
  EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E5M2FNUZ, 0x80)));
}

TEST(ValuesTest, E8M0IsPowersOfTwo) {
  EXPECT_EQ(value_of_byte(DType::F8_E8M0, 127), 1);
  EXPECT_EQ(value_of_byte(DType::F8_E8M0, 0), std::ldexp(1, -127));
  EXPECT_EQ(value_of_byte(DType::F8_E8M0, 254), std::ldexp(1, 127));
  EXPECT_TRUE(std::isnan(value_of_byte(DType::F8_E8M0, 255)));
}

TEST(ValuesTest, TypesThatAreNoSingleNumberAreRefused) {
  for (DType dtype : {DType::F4, DType::F6_E2M3, DType::F6_E3M2, DType::C64}) {
    EXPECT_FALSE(has_values(dtype));
    EXPECT_THROW(to_double(dtype, {}, {}), Error);
  }
}

TEST(ValuesTest, SizesThatDisagreeAreRefused) {
  const std::vector<std::byte> in(7);
  std::vector<double> out(2);
  EXPECT_THROW(to_double(DType::F32, in, out), Error);
  to_double(DType::F32, {}, {});
}

}  // namespace
}  // namespace weightloom
