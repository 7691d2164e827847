#include "weightloom/layout/operations.h"

#include <chrono>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

/// All shapes of up to three dims of sizes 0, 1, 3 and, innermost, 4; the 0-d shape first.
std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes = {{}};
  for (const int64_t a : {0, 1, 3, 7}) {
    shapes.push_back({a});
    for (const int64_t b : {0, 1, 2, 3}) {
      shapes.push_back({a, b});
      for (const int64_t c : {0, 1, 4}) shapes.push_back({a, b, c});
    }
  }
  return shapes;
}

/// A tensor of three regions: two sources side by side in `dim` around a pad, so that laws are not
/// only tried on one run. Falls back to the identity for 0-d shapes.
struct Sample {
  Layout layout;
  std::vector<Dense> sources;
  Dense dense;
};

std::vector<Sample> samples(const Shape& shape) {
  std::vector<Sample> result;
  const Dense first = counting(shape, 100);
  const Dense second = counting(shape, 200);
  result.push_back({identity(0, shape), {first}, first});
  for (int dim = 0; std::cmp_less(dim, shape.size()); ++dim) {
    const std::vector<Layout> layouts = {identity(0, shape), pad(identity(1, shape), dim, 1, 0, 9)};
    const std::vector<Dense> arrays = {first, dense_pad(second, dim, 1, 0, 9)};
    result.push_back({concat(layouts, dim), {first, second}, dense_concat(arrays, dim)});
  }
  return result;
}

void for_each_sample(const std::function<void(const Sample&)>& check) {
  for (const Shape& shape : small_shapes()) {
    for (const Sample& sample : samples(shape)) {
      SCOPED_TRACE(to_string(sample.layout));
      check(sample);
    }
  }
}

void for_each_dim(const std::function<void(const Sample&, int)>& check) {
  for_each_sample([&](const Sample& sample) {
    for (int dim = 0; dim < sample.layout.rank(); ++dim) check(sample, dim);
  });
}

int64_t rows(const Sample& sample, int dim) { return sample.dense.shape[static_cast<size_t>(dim)]; }

void expect_equal(const Layout& layout, const Sample& sample, const Dense& expected) {
  EXPECT_EQ(gather(layout, sample.sources), expected);
  EXPECT_EQ(invariant_fault(layout), "");
}

TEST(OperationsTest, IdentityIsOneRegionOrNone) {
  EXPECT_EQ(to_string(identity(0, {2, 3})), "(2, 3):[0<-s0+0 (6:1<-1)]");
  EXPECT_EQ(to_string(identity(3, {})), "():[0<-s3+0]");
  EXPECT_EQ(to_string(identity(0, {2, 0, 3})), "(2, 0, 3):[]");
}

TEST(OperationsTest, ConstantIsOnePad) {
  EXPECT_EQ(to_string(constant(7, {2, 3})), "(2, 3):[0<-pad(7) (6:1)]");
}

TEST(OperationsTest, ReshapeKeepsTheElementsInOrder) {
  for_each_sample([](const Sample& sample) {
    const Shape flat = {sample.layout.size(), 1};
    expect_equal(reshape(sample.layout, flat), sample, dense_reshape(sample.dense, flat));
  });
}

TEST(OperationsTest, SliceKeepsTheRowsOfEveryRange) {
  for_each_dim([](const Sample& sample, int dim) {
    for (int64_t begin = 0; begin <= rows(sample, dim); ++begin) {
      for (int64_t end = begin; end <= rows(sample, dim); ++end) {
        expect_equal(slice(sample.layout, dim, begin, end), sample,
                     dense_slice(sample.dense, dim, begin, end));
      }
    }
  });
}

TEST(OperationsTest, PermuteMovesDimsInEveryOrder) {
  for_each_sample([](const Sample& sample) {
    std::vector<int> order;
    for (int dim = 0; dim < sample.layout.rank(); ++dim) order.push_back(dim);
    do {
      expect_equal(permute(sample.layout, order), sample, dense_permute(sample.dense, order));
    } while (std::ranges::next_permutation(order).found);
  });
}

TEST(OperationsTest, TransposeSwapsEveryTwoDims) {
  for_each_dim([](const Sample& sample, int dim) {
    for (int other = 0; other < sample.layout.rank(); ++other) {
      expect_equal(transpose(sample.layout, dim, other), sample,
                   dense_transpose(sample.dense, dim, other));
    }
  });
}

TEST(OperationsTest, ConcatPutsPartsOfUnequalSizesInOrder) {
  for_each_dim([](const Sample& sample, int dim) {
    const int64_t cut = rows(sample, dim) / 2;
    const std::vector<Layout> layouts = {slice(sample.layout, dim, cut, rows(sample, dim)),
                                         slice(sample.layout, dim, 0, cut), sample.layout};
    const std::vector<Dense> arrays = {dense_slice(sample.dense, dim, cut, rows(sample, dim)),
                                       dense_slice(sample.dense, dim, 0, cut), sample.dense};
    expect_equal(concat(layouts, dim), sample, dense_concat(arrays, dim));
  });
}

TEST(OperationsTest, StackMakesANewDimAtEveryPlace) {
  for_each_sample([](const Sample& sample) {
    const std::vector<Layout> layouts(3, sample.layout);
    const std::vector<Dense> arrays(3, sample.dense);
    for (int dim = 0; dim <= sample.layout.rank(); ++dim) {
      expect_equal(stack(layouts, dim), sample, dense_stack(arrays, dim));
    }
  });
}

TEST(OperationsTest, UnstackGivesEveryRow) {
  for_each_dim([](const Sample& sample, int dim) {
    const std::vector<Layout> parts = unstack(sample.layout, dim);
    ASSERT_EQ(std::ssize(parts), rows(sample, dim));
    for (int64_t i = 0; i < rows(sample, dim); ++i) {
      expect_equal(parts[static_cast<size_t>(i)], sample, dense_take(sample.dense, dim, i));
    }
  });
}

TEST(OperationsTest, SplitGivesConsecutivePartsEvenEmptyOnes) {
  for_each_dim([](const Sample& sample, int dim) {
    const int64_t first = rows(sample, dim) / 3;
    const std::vector<int64_t> sizes = {first, 0, rows(sample, dim) - first};
    const std::vector<Layout> parts = split(sample.layout, dim, sizes);
    ASSERT_EQ(parts.size(), 3U);
    expect_equal(parts[0], sample, dense_slice(sample.dense, dim, 0, first));
    expect_equal(parts[1], sample, dense_slice(sample.dense, dim, first, first));
    expect_equal(parts[2], sample, dense_slice(sample.dense, dim, first, rows(sample, dim)));
  });
}

TEST(OperationsTest, InterleaveTakesEveryNthRowInBothDirections) {
  for_each_dim([](const Sample& sample, int dim) {
    for (const int64_t ways : {1, 2, 3, 7}) {
      if (rows(sample, dim) % ways != 0) continue;
      for (const bool inverse : {false, true}) {
        expect_equal(interleave(sample.layout, dim, ways, inverse), sample,
                     dense_interleave(sample.dense, dim, ways, inverse));
      }
      const Layout there = interleave(sample.layout, dim, ways, false);
      expect_equal(interleave(there, dim, ways, true), sample, sample.dense);
    }
  });
}

TEST(OperationsTest, PadSurroundsWithTheValue) {
  for_each_dim([](const Sample& sample, int dim) {
    expect_equal(pad(sample.layout, dim, 2, 1, -5), sample, dense_pad(sample.dense, dim, 2, 1, -5));
    expect_equal(pad(sample.layout, dim, 0, 0), sample, sample.dense);
  });
}

// ---- Region counts of real models, worked out by hand.

Layout experts(int64_t count, const Shape& shape) {
  const std::vector<Layout> parts(static_cast<size_t>(count), identity(0, shape));
  return stack(parts, 0);
}

/// gate_up of DeepSeek-V3: 256 experts of gate and up, [2048, 7168] each.
Layout deepseek_gate_up() {
  const std::vector<Layout> parts = {experts(256, {2048, 7168}), experts(256, {2048, 7168})};
  return concat(parts, 1);
}

TEST(OperationsTest, FusedExpertsAreOneRegionPerTensor) {
  const Layout gate_up = deepseek_gate_up();
  EXPECT_EQ(gate_up.shape(), (Shape{256, 4096, 7168}));
  EXPECT_EQ(gate_up.regions().size(), 512U);
  for (const Region& region : gate_up.regions()) EXPECT_EQ(region.axes.size(), 1U);
}

TEST(OperationsTest, ARowParallelCutKeepsOneRegionPerExpert) {
  const Layout down = experts(256, {7168, 2048});
  EXPECT_EQ(slice(down, 2, 3 * 256, 4 * 256).regions().size(), 256U);
  EXPECT_EQ(slice(slice(down, 0, 24, 32), 2, 0, 256).regions().size(), 8U);
}

TEST(OperationsTest, ACutInMidExpertAddsNoRegions) {
  // Rows 100..5000 of the flattened experts: 1948 of gate 0, all of up 0, 904 of gate 1.
  const Layout flat = reshape(deepseek_gate_up(), {256 * 4096, 7168});
  EXPECT_EQ(slice(flat, 0, 100, 5000).regions().size(), 3U);
}

TEST(OperationsTest, TheRotaryPermutationIsOneRegionOfThreeAxes) {
  // 32 heads of 64 pairs: [head, pair, 2] -> [head, 2, pair].
  const Layout heads = reshape(identity(0, {4096, 4096}), {32, 64, 2, 4096});
  const Layout rope = reshape(transpose(heads, 1, 2), {4096, 4096});
  EXPECT_EQ(to_string(rope),
            "(4096, 4096):[0<-s0+0 (32:524288<-524288, 2:262144<-4096, 64:4096<-8192, "
            "4096:1<-1)]");
}

TEST(OperationsTest, GroupedQueryFusionIsOneRegionPerProjection) {
  const std::vector<Layout> qkv = {reshape(identity(0, {4096, 4096}), {8, 512, 4096}),
                                   reshape(identity(1, {1024, 4096}), {8, 128, 4096}),
                                   reshape(identity(2, {1024, 4096}), {8, 128, 4096})};
  EXPECT_EQ(concat(qkv, 1).regions().size(), 3U);
}

TEST(OperationsTest, TransposedAndDeinterleavedExpertsAreOneRegion) {
  const Layout experts_last = transpose(identity(0, {128, 2880, 5760}), 1, 2);
  const Layout gates_first = interleave(experts_last, 1, 2, false);
  EXPECT_EQ(gates_first.regions().size(), 1U);
}

TEST(OperationsTest, StackingManyTensorsIsLinear) {
  // 92,000 leaves into 359 targets; the bound is far above what it takes, and far below quadratic.
  const auto begin = std::chrono::steady_clock::now();
  size_t regions = 0;
  for (int target = 0; target < 359; ++target) {
    std::vector<Layout> leaves;
    leaves.reserve(256);
    for (SourceId i = 0; i < 256; ++i) leaves.push_back(identity(i, {2048, 7168}));
    regions += stack(leaves, 0).regions().size();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(regions, 359U * 256U);
  RecordProperty("seconds", std::to_string(elapsed.count()));
  EXPECT_LT(elapsed.count(), 5.0);
}

// ---- Errors.

void expect_error(ErrorCode code, const std::string& message,
                  const std::function<void()>& operation) {
  try {
    operation();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

const Layout kMatrix = identity(0, {2, 3});

TEST(OperationsErrorTest, ShapesOutOfRangeAreRefused) {
  expect_error(ErrorCode::usage, "identity: shape [2, -3] has a negative dim",
               [] { identity(0, {2, -3}); });
  expect_error(ErrorCode::usage, "identity: shape [4294967296, 4294967296] has",
               [] { identity(0, {int64_t{1} << 32, int64_t{1} << 32}); });
  expect_error(ErrorCode::usage, "identity: source -1", [] { identity(-1, {2}); });
}

TEST(OperationsErrorTest, ReshapeNeedsTheSameSize) {
  expect_error(ErrorCode::usage, "reshape: [2, 3] has 6 elements, [7] has 7",
               [] { reshape(kMatrix, {7}); });
}

TEST(OperationsErrorTest, DimsMustExist) {
  expect_error(ErrorCode::usage, "slice: dim 2 is not in [0, 2)", [] { slice(kMatrix, 2, 0, 1); });
  expect_error(ErrorCode::usage, "concat: dim -1 is not in [0, 2)",
               [] { concat(std::vector<Layout>{kMatrix}, -1); });
  expect_error(ErrorCode::usage, "stack: dim 3 is not in [0, 3)",
               [] { stack(std::vector<Layout>{kMatrix}, 3); });
  expect_error(ErrorCode::usage, "unstack: dim 0 is not in [0, 0)",
               [] { unstack(identity(0, {}), 0); });
  expect_error(ErrorCode::usage, "transpose: dim 5 is not in [0, 2)",
               [] { transpose(kMatrix, 0, 5); });
}

TEST(OperationsErrorTest, SliceNamesTheRows) {
  expect_error(ErrorCode::usage, "slice: rows [1, 4) of dim 1 are not in [0, 3)",
               [] { slice(kMatrix, 1, 1, 4); });
  expect_error(ErrorCode::usage, "slice: rows [2, 1)", [] { slice(kMatrix, 1, 2, 1); });
}

TEST(OperationsErrorTest, PermuteNeedsEachDimOnce) {
  expect_error(ErrorCode::usage, "permute: dim 1 appears twice",
               [] { permute(kMatrix, std::vector<int>{1, 1}); });
  expect_error(ErrorCode::usage, "permute: an order of 1 dims for a tensor of 2 dims",
               [] { permute(kMatrix, std::vector<int>{0}); });
}

TEST(OperationsErrorTest, PartsMustFit) {
  const std::vector<Layout> parts = {kMatrix, identity(1, {2, 4})};
  expect_error(ErrorCode::usage, "concat along dim 0: part 1 has shape [2, 4], part 0 has [2, 3]",
               [&] { concat(parts, 0); });
  expect_error(ErrorCode::usage, "stack before dim 0: part 1 has shape [2, 4], part 0 has [2, 3]",
               [&] { stack(parts, 0); });
  expect_error(ErrorCode::usage, "concat along dim 0: no parts", [] { concat({}, 0); });
  expect_error(ErrorCode::usage, "stack before dim 0: no parts", [] { stack({}, 0); });
}

TEST(OperationsErrorTest, SplitSizesMustAddUp) {
  expect_error(ErrorCode::usage, "split: sizes [1, 1] leave 1 rows of dim 1 of [2, 3]",
               [] { split(kMatrix, 1, std::vector<int64_t>{1, 1}); });
  expect_error(ErrorCode::usage, "split: sizes [2, 2] do not add up to dim 1 of [2, 3]",
               [] { split(kMatrix, 1, std::vector<int64_t>{2, 2}); });
}

TEST(OperationsErrorTest, InterleaveNeedsADivisor) {
  expect_error(ErrorCode::usage, "interleave: dim 1 of [2, 3] does not divide into 2 ways",
               [] { interleave(kMatrix, 1, 2, false); });
  expect_error(ErrorCode::usage, "into 0 ways", [] { interleave(kMatrix, 1, 0, false); });
}

TEST(OperationsErrorTest, SizesThatOverflowAreRefused) {
  expect_error(ErrorCode::usage, "pad: -1 rows before", [] { pad(kMatrix, 0, -1, 0); });
  expect_error(ErrorCode::usage, "constant: shape [9223372036854775807, 3]",
               [] { pad(kMatrix, 0, kLargest, 0); });
  const std::vector<Layout> parts(2, identity(0, {kLargest}));
  expect_error(ErrorCode::usage, "the sizes add up beyond 64 bits", [&] { concat(parts, 0); });
  expect_error(ErrorCode::usage, "stack: shape [2, 9223372036854775807]", [&] { stack(parts, 0); });
}

TEST(OperationsErrorTest, TooManyPartsAreRefusedBeforeTheyAreMade) {
  expect_error(ErrorCode::plan, "unstack: dim 0 of [4000001, 0] makes more than 4000000 tensors",
               [] { unstack(identity(0, {kMaxRegions + 1, 0}), 0); });
}

TEST(OperationsErrorTest, StridesThatDoNotDivideMayNeedTooManyRegions) {
  // Rows of 2^21 + 1 elements cut into rows of 2^21: each of 2^23 rows crosses at another place.
  const int64_t n = int64_t{1} << 23;
  const std::vector<Layout> parts = {identity(0, {n, n / 4}), identity(1, {n, 3})};
  const Layout odd = reshape(concat(parts, 1), {n / 4 + 3, n});
  expect_error(ErrorCode::plan, "more than 4000000", [&] { slice(odd, 1, 0, n / 2); });
}

}  // namespace
}  // namespace weightloom::testing
