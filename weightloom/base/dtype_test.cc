#include "weightloom/base/dtype.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

TEST(DType, EveryNameIsReadBackAsItself) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
}

TEST(DType, WidthsAreThoseOfSafetensors) {
  EXPECT_EQ(bits(DType::F4), 4);
  EXPECT_EQ(bits(DType::F6_E2M3), 6);
  EXPECT_EQ(bits(DType::F6_E3M2), 6);
  EXPECT_EQ(bits(DType::BOOL), 8);
  EXPECT_EQ(bits(DType::F8_E8M0), 8);
  EXPECT_EQ(bits(DType::BF16), 16);
  EXPECT_EQ(bits(DType::F32), 32);
  EXPECT_EQ(bits(DType::C64), 64);
  EXPECT_EQ(bits(DType::U64), 64);
}

TEST(DType, OtherSpellingsAreUnknown) {
  for (auto name : {"", "f32", "F7", "bfloat16", "F32 ", "F8"}) {
    EXPECT_EQ(parse_dtype(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace weightloom
