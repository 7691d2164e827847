#include "weightloom/base/shape.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

constexpr int64_t kTwoTo32 = int64_t{1} << 32;
constexpr int64_t kTwoTo62 = int64_t{1} << 62;

TEST(Shape, CountsElements) {
  EXPECT_EQ(checked_elements(Shape{}), 1);
  EXPECT_EQ(checked_elements(Shape{3, 0}), 0);
  EXPECT_EQ(checked_elements(Shape{2, 3, 7}), 42);
  EXPECT_EQ(elements(Shape{2, 3, 7}), 42);
}

TEST(Shape, RefusesNegativeDimsAndProductsThatOverflow) {
  EXPECT_EQ(checked_elements(Shape{-2}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{kTwoTo32, kTwoTo32}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{kTwoTo32, 0, kTwoTo32}), std::nullopt);
}

TEST(Shape, CountsBytesOfSubByteTypesExactly) {
  EXPECT_EQ(checked_bytes(DType::F4, Shape{2, 8}), 8);
  EXPECT_EQ(checked_bytes(DType::F6_E2M3, Shape{4}), 3);
  EXPECT_EQ(checked_bytes(DType::F4, Shape{3}), std::nullopt);
  EXPECT_EQ(checked_bytes(DType::F32, Shape{kTwoTo62}), std::nullopt);
}

TEST(Shape, StridesAreRowMajor) {
  EXPECT_EQ(row_major_strides(Shape{2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_TRUE(row_major_strides(Shape{}).empty());
}

TEST(Shape, PrintsAsAList) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
}

}  // namespace
}  // namespace weightloom
