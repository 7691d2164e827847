#include "weightloom/codec/cast.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "weightloom/codec/cast_reference.h"
#include "weightloom/codec/cast_testing.h"
#include "weightloom/codec/targets_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using testing::kCastable;
using testing::kCastTypes;
using testing::with_each_target;
using Bytes = std::vector<std::byte>;

void expect_as_reference(DType from, DType to, const std::vector<uint64_t>& patterns) {
  const Bytes in = testing::packed(from, patterns);
  const auto width = static_cast<size_t>(bits(to) / 8);
  Bytes expected(patterns.size() * width);
  const int64_t lost = cast_reference(from, to, in.data(), expected.data(), std::ssize(patterns));
  with_each_target([&] {
    Bytes out(expected.size(), std::byte{0xee});
    EXPECT_EQ(cast(from, to, in.data(), out.data(), std::ssize(patterns)), lost);
    if (out == expected) return;
    size_t first = 0;
    while (std::equal(out.begin(), out.begin() + static_cast<int64_t>((first + 1) * width),
                      expected.begin())) {
      ++first;
    }
    ADD_FAILURE() << to_string(from) << " to " << to_string(to) << ": pattern 0x" << std::hex
                  << patterns[first] << " should be 0x" << cast_bits(from, to, patterns[first]);
  });
}

TEST(CastTest, AllPatternsOfEightAndSixteenBitsAreCastAsTheReferenceCasts) {
  for (DType from : {DType::F16, DType::BF16, DType::F8_E5M2, DType::F8_E4M3}) {
    for (DType to : kCastTypes) expect_as_reference(from, to, testing::all_patterns(from));
  }
}

TEST(CastTest, TiesAndBoundsAreCastAsTheReferenceCasts) {
  const uint64_t seed = testing::test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  for (DType from : {DType::F32, DType::F64}) {
    for (DType to : kCastTypes) {
      expect_as_reference(from, to, testing::hard_patterns(from, to, seed));
    }
  }
}

TEST(CastTest, RandomPatternsAreCastAsTheReferenceCasts) {
  const uint64_t seed = testing::test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  for (DType from : {DType::F32, DType::F64}) {
    const auto patterns = testing::random_patterns(from, 1'000'000, seed);
    for (DType to : kCastTypes) expect_as_reference(from, to, patterns);
  }
}

TEST(CastTest, EveryLengthAndAlignmentWritesItsElementsAndNoOthers) {
  constexpr int64_t kMost = 70;  // more than two of the widest vectors
  uint64_t seed = testing::test_seed();
  for (DType from : kCastTypes) {
    for (DType to : kCastTypes) {
      const Bytes in = testing::packed(from, testing::random_patterns(from, kMost, seed));
      for (int64_t count = 0; count < kMost; ++count) {
        const auto size = static_cast<size_t>(count * bits(to) / 8);
        const size_t shift = static_cast<size_t>(count) % 3;
        Bytes unaligned(shift);
        unaligned.insert(unaligned.end(), in.begin(), in.end());
        Bytes expected(size + shift + 64, std::byte{0xee});
        Bytes out = expected;
        const int64_t lost = cast_reference(from, to, in.data(), expected.data() + shift, count);
        with_each_target([&] {
          EXPECT_EQ(cast(from, to, unaligned.data() + shift, out.data() + shift, count), lost);
          EXPECT_EQ(out, expected) << count << " elements";
        });
      }
    }
  }
}

#if defined(__SSE__)
TEST(CastTest, SubnormalsStayWhenTheProcessorIsToldToFlushThem) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  for (DType to : kCastTypes) expect_as_reference(DType::F32, to, {1, 0x80000001, 0x7fffff});
  for (DType to : kCastTypes) expect_as_reference(DType::F16, to, {1, 0x8001, 0x3ff});
  for (DType to : kCastTypes) expect_as_reference(DType::BF16, to, {1, 0x8001, 0x7f});
  expect_as_reference(DType::F64, DType::F32, {0x36a0000000000000, 0xb80fffffc0000000});
  _mm_setcsr(before);
}
#endif

TEST(CastTest, NothingElseIsCastable) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool wanted =
        std::find(std::begin(kCastable), std::end(kCastable), dtype) != std::end(kCastable);
    EXPECT_EQ(is_castable(dtype), wanted) << to_string(dtype);
  }
}

}  // namespace
}  // namespace weightloom
