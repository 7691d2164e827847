#include "weightloom/execute/value_difference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

ValueDifference floats(const std::vector<float>& a, const std::vector<float>& b) {
  return compare_values(DType::F32, bytes_of(a), DType::F32, bytes_of(b));
}

TEST(CompareValues, EqualBytesAreEqual) {
  const ValueDifference none = floats({1, 2, kNaN}, {1, 2, kNaN});
  EXPECT_EQ(none, (ValueDifference{.elements = 3}));
  EXPECT_EQ(floats({}, {}), ValueDifference{});
}

TEST(CompareValues, TellsHowManyWhereAndByHowMuch) {
  const ValueDifference found = floats({1, 2, 3, 4}, {1, 2.5, -3, 4});
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.first_index, 1);
  EXPECT_EQ(found.max_abs, 6);
  EXPECT_EQ(found.max_abs_index, 2);
}

TEST(CompareValues, OfEqualDistancesTheFirstIsNamed) {
  EXPECT_EQ(floats({0, 0, 0}, {1, -1, 1}).max_abs_index, 0);
}

TEST(CompareValues, NaNAgainstANumberDiffersAndHasNoDistance) {
  const ValueDifference found = floats({kNaN, 1, kNaN}, {1, kNaN, -kNaN});
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.nan_only_in_a, 1);
  EXPECT_EQ(found.nan_only_in_b, 1);
  EXPECT_EQ(found.max_abs_index, -1);
  EXPECT_EQ(found.other_bits, 1);  // NaN in both, of two signs
}

TEST(CompareValues, SignedZerosAreOneValueInOtherBits) {
  const ValueDifference found = floats({0.0F, 1}, {-0.0F, 1});
  EXPECT_EQ(found.differing, 0);
  EXPECT_EQ(found.other_bits, 1);
}

TEST(CompareValues, InfinitiesAreInfinitelyFarFromNumbers) {
  const auto infinite = static_cast<float>(kInfinity);
  const ValueDifference found = floats({infinite, infinite, 1}, {infinite, -infinite, 2});
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.max_abs, kInfinity);
  EXPECT_EQ(found.max_abs_index, 1);
}

TEST(CompareValues, WideIntegersAreComparedExactly) {
  constexpr int64_t kBig = int64_t{1} << 62;  // as F64 it equals its neighbours
  const auto found = compare_values(DType::I64, bytes_of<int64_t>({kBig, -5}), DType::I64,
                                    bytes_of<int64_t>({kBig + 1, -5}));
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.max_abs, 1);
  EXPECT_EQ(compare_values(DType::I64, bytes_of<int64_t>({INT64_MIN}), DType::I64,
                           bytes_of<int64_t>({INT64_MAX}))
                .max_abs,
            std::ldexp(1, 64));
  EXPECT_EQ(compare_values(DType::U64, bytes_of<uint64_t>({UINT64_MAX}), DType::U64,
                           bytes_of<uint64_t>({UINT64_MAX - 3}))
                .max_abs,
            3);
}

TEST(CompareValues, OtherDtypesAreComparedAsNumbers) {
  // BF16 0x3f80 is 1, 0x3fc0 is 1.5.
  const auto halves = bytes_of<uint16_t>({0x3f80, 0x3fc0, 0x8000});
  EXPECT_EQ(compare_values(DType::BF16, halves, DType::F32, bytes_of<float>({1, 1.5F, 0})),
            (ValueDifference{.elements = 3}));
  const ValueDifference found =
      compare_values(DType::BF16, halves, DType::F32, bytes_of<float>({1, 1.625F, 0}));
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.first_index, 1);
  EXPECT_EQ(found.max_abs, 0.125);
}

TEST(CompareValues, DtypesWithoutNumbersAreRefused) {
  const auto bytes = bytes_of<uint8_t>({1});
  const auto error =
      refusal_of([&] { compare_values(DType::F4, bytes, DType::U8, bytes_of<uint8_t>({2, 3})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::unsupported);
}

TEST(Joined, PartsGiveWhatTheWholeGives) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> a(20000);
    for (float& value : a) value = static_cast<float>(random() % 5);
    std::vector<float> b = a;
    for (int i = 0; i < round; ++i) b[random() % b.size()] = i % 4 == 0 ? kNaN : -2;
    const size_t cut = random() % a.size();
    const auto at = static_cast<std::ptrdiff_t>(cut);
    const ValueDifference before = floats({a.begin(), a.begin() + at}, {b.begin(), b.begin() + at});
    const ValueDifference after = floats({a.begin() + at, a.end()}, {b.begin() + at, b.end()});
    EXPECT_EQ(joined(before, after, static_cast<int64_t>(cut)), floats(a, b)) << round;
  }
}

/// F64 holds no integer between 2^53 and 2^53 + 2: an I64 there is not the F64 that it rounds to.
TEST(CompareValues, LargeIntegersAreNotTheFloatsTheyRoundTo) {
  const int64_t odd = (int64_t{1} << 53) + 1;
  const double even = 9007199254740992.0;
  const auto found = compare_values(DType::I64, bytes_of(std::vector<int64_t>{odd, odd - 1}),
                                    DType::F64, bytes_of(std::vector<double>{even, even}));
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.first_index, 0);
}

}  // namespace
}  // namespace weightloom
