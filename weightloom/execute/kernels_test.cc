#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/codec/cast_reference.h"
#include "weightloom/execute/kernels_internal.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kUntouched{0xa5};

Bytes noise(size_t size) {
  std::mt19937_64 random(size);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Visits each (target, source) offset of a region, by recursion over its axes.
template <typename Visit>
void for_each_pair(const Region& region, size_t axis, int64_t to, int64_t from, Visit visit) {
  if (axis == region.axes.size()) return visit(static_cast<size_t>(to), static_cast<size_t>(from));
  const Axis& a = region.axes[axis];
  for (int64_t k = 0; k < a.extent; ++k) {
    for_each_pair(region, axis + 1, to + k * a.target_stride, from + k * a.source_stride, visit);
  }
}

Bytes copied_pointwise(const Region& region, const Bytes& source, size_t target_size) {
  Bytes target(target_size, kUntouched);
  for_each_pair(region, 0, region.target_offset, region.source_offset,
                [&](size_t to, size_t from) { target.at(to) = source.at(from); });
  return target;
}

size_t end_of(int64_t offset, int64_t span) { return static_cast<size_t>(offset + span + 1); }

void expect_copies_pointwise(const Region& region) {
  const Bytes source = noise(end_of(region.source_offset, source_span(region)));
  const size_t target_size = end_of(region.target_offset, target_span(region)) + 5;
  Bytes target(target_size, kUntouched);
  copy_region(region, source.data(), target.data());
  EXPECT_EQ(target, copied_pointwise(region, source, target_size)) << to_string(region);
}

/// Nested strides over `axes` in the order given by `order` (innermost last), above a run.
std::vector<int64_t> strides(const std::vector<int64_t>& extents, const std::vector<size_t>& order,
                             int64_t run, std::mt19937_64& random) {
  std::vector<int64_t> result(extents.size());
  int64_t span = run;
  for (size_t i = order.size(); i-- > 0;) {
    result[order[i]] = span + static_cast<int64_t>(random() % 3);
    span = result[order[i]] * extents[order[i]];
  }
  return result;
}

Region random_region(uint64_t seed, int64_t run) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> extents(random() % 4);
  for (int64_t& extent : extents) extent = 2 + static_cast<int64_t>(random() % 7);
  std::vector<size_t> order(extents.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto target = strides(extents, order, run, random);
  std::shuffle(order.begin(), order.end(), random);
  const auto source = strides(extents, order, run, random);
  Region region{0, 0, static_cast<int64_t>(random() % 9), static_cast<int64_t>(random() % 9), {}};
  for (size_t i = 0; i < extents.size(); ++i) {
    region.axes.push_back({extents[i], target[i], source[i]});
  }
  if (run > 1) region.axes.push_back({run, 1, 1});
  return normalized(region);
}

Region transpose_of(int64_t rows, int64_t columns, int64_t width) {
  Region region{0, 0, 0, 0, {{rows, columns * width, width}, {columns, width, rows * width}}};
  if (width > 1) region.axes.push_back({width, 1, 1});
  return normalized(region);
}

TEST(KernelsTest, RandomRegionsOfAllWidthsAreCopiedPointwise) {
  for (int64_t width : {1, 2, 3, 4, 5, 8, 16, 24, 32, 64, 96}) {
    for (uint64_t i = 0; i < 200; ++i) {
      const uint64_t seed = testing::test_seed() + i;
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed << ", width " << width);
      expect_copies_pointwise(random_region(seed, width));
    }
  }
}

TEST(KernelsTest, TransposesThatBlocksDoNotDivideAreCopiedPointwise) {
  for (int64_t width : {1, 2, 3, 4, 8, 16}) {
    for (int64_t rows : {2, 31, 32, 33, 65}) {
      for (int64_t columns : {3, 32, 63, 67}) {
        expect_copies_pointwise(transpose_of(rows, columns, width));
      }
    }
  }
}

TEST(KernelsTest, ATransposeBelowAnOuterAxisIsCopiedPointwise) {
  for (int64_t width : {1, 2, 4}) {
    Region region = transpose_of(33, 5, width);
    AxisList axes{{3, 33 * 5 * width + 1, 33 * 5 * width + 7}};
    for (const Axis& axis : region.axes) axes.push_back(axis);
    region.axes = axes;
    expect_copies_pointwise(region);
  }
}

TEST(KernelsTest, AReversedOrderOfThreeAxesIsCopiedPointwise) {
  // [3, 40, 35] read back to front: the innermost source axis is the outermost target axis.
  expect_copies_pointwise({0, 0, 1, 2, {{3, 1400, 1}, {40, 35, 3}, {35, 1, 120}}});
}

TEST(KernelsTest, ARegionWithoutAxesIsOneByte) { expect_copies_pointwise({0, 0, 4, 3, {}}); }

TEST(KernelsTest, ALongRunIsCopiedWhole) {
  expect_copies_pointwise({0, 0, 1, 0, {{100'003, 1, 1}}});
}

/// A region whose points are elements of these widths, from one whose points are bytes.
Region in_elements(Region region, int64_t target_bytes, int64_t source_bytes) {
  region.target_offset *= target_bytes;
  region.source_offset *= source_bytes;
  for (Axis& axis : region.axes) {
    axis.target_stride *= target_bytes;
    axis.source_stride *= source_bytes;
  }
  return region;
}

void expect_casts_pointwise(const Region& bytes, DType from, DType to) {
  const auto source_bytes = static_cast<size_t>(bits(from) / 8);
  const auto target_bytes = static_cast<size_t>(bits(to) / 8);
  const Region region =
      in_elements(bytes, static_cast<int64_t>(target_bytes), static_cast<int64_t>(source_bytes));
  const Bytes source = noise(end_of(region.source_offset, source_span(region)) + source_bytes - 1);
  Bytes target(end_of(region.target_offset, target_span(region)) + target_bytes + 5, kUntouched);
  Bytes expected = target;
  int64_t lost = 0;
  for_each_pair(region, 0, region.target_offset, region.source_offset, [&](size_t t, size_t s) {
    lost += cast_reference(from, to, source.data() + s, expected.data() + t, 1);
  });
  EXPECT_EQ(cast_region(region, from, to, source.data(), target.data()), lost);
  EXPECT_EQ(target, expected) << to_string(region) << " " << to_string(from);
}

constexpr std::pair<DType, DType> kCasts[] = {{DType::F32, DType::BF16},
                                              {DType::BF16, DType::F64},
                                              {DType::F16, DType::BF16},
                                              {DType::F64, DType::F16},
                                              {DType::F64, DType::F32}};

TEST(KernelsTest, RandomRegionsAreCastPointwise) {
  for (const auto& [from, to] : kCasts) {
    for (uint64_t i = 0; i < 200; ++i) {
      const uint64_t seed = testing::test_seed() + i;
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
      expect_casts_pointwise(random_region(seed, i % 3 == 0 ? 70 : 1 + i % 5), from, to);
    }
  }
}

TEST(KernelsTest, TransposesThatBlocksDoNotDivideAreCastPointwise) {
  for (const auto& [from, to] : kCasts) {
    for (int64_t rows : {2, 31, 33, 65}) {
      for (int64_t columns : {3, 32, 67, 300}) {
        expect_casts_pointwise(transpose_of(rows, columns, 1), from, to);
      }
    }
    expect_casts_pointwise({0, 0, 1, 2, {{3, 1400, 1}, {40, 35, 3}, {35, 1, 120}}}, from, to);
    expect_casts_pointwise({0, 0, 3, 0, {{2, 9000, 4500}, {1500, 6, 3}, {3, 2, 1}}}, from, to);
  }
}

TEST(KernelsTest, OneElementAndALongRunAreCast) {
  for (const auto& [from, to] : kCasts) {
    expect_casts_pointwise({0, 0, 4, 3, {}}, from, to);
    expect_casts_pointwise({0, 0, 1, 0, {{10'003, 1, 1}}}, from, to);
  }
}

TEST(KernelsTest, AFillZeroesItsBytesAndNoOthers) {
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t seed = testing::test_seed() + i;
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    Region region = random_region(seed, i % 3 == 0 ? 1 : 4);
    region.source = kPad;
    for (Axis& axis : region.axes) axis.source_stride = 0;
    const size_t size = end_of(region.target_offset, target_span(region)) + 5;
    Bytes expected(size, kUntouched);
    for_each_pair(region, 0, region.target_offset, 0,
                  [&](size_t to, size_t) { expected.at(to) = std::byte{0}; });
    Bytes target(size, kUntouched);
    fill_region(region, target.data());
    EXPECT_EQ(target, expected) << to_string(region);
  }
}

}  // namespace
}  // namespace weightloom
