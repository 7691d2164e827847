#include "weightloom/plan/interpret.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

CopyProgram program_of(std::vector<Region> regions, int64_t size) {
  return CopyProgram({{"f", "f", {}}}, {{"a", DType::U8, {6}, 0, 0, 6}},
                     {{"t", DType::U8, {size}, size, std::move(regions), true}});
}

std::vector<Bytes> run(const CopyProgram& program) {
  return interpret(program, [](const ProgramSource&) { return bytes_of({1, 2, 3, 4, 5, 6}); });
}

TEST(InterpretTest, ARegionTransposesByItsStrides) {
  // [2, 3] read as [3, 2]: target rows step 2, source columns step 1.
  const auto out = run(program_of({{0, 0, 0, 0, {{3, 2, 1}, {2, 1, 3}}}}, 6));
  EXPECT_EQ(out, std::vector<Bytes>{bytes_of({1, 4, 2, 5, 3, 6})});
}

TEST(InterpretTest, ARegionWithoutAxesIsOneByte) {
  const auto out = run(program_of({{0, 0, 5, 0, {}}}, 1));
  EXPECT_EQ(out, std::vector<Bytes>{bytes_of({6})});
}

TEST(InterpretTest, APadWritesZeros) {
  const auto out = run(program_of({{0, 0, 3, 0, {{2, 1, 1}}}, {kPad, 0, 0, 2, {{2, 1, 0}}}}, 4));
  EXPECT_EQ(out, std::vector<Bytes>{bytes_of({4, 5, 0, 0})});
}

TEST(InterpretTest, ACastIsMadeElementByElement) {
  // F32 1, -2 and 65536, little-endian, to F16 in reverse order; 65536 is beyond F16.
  const Bytes source = bytes_of({0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x47});
  const CopyProgram program({{"f", "f", {}}}, {{"a", DType::F32, {3}, 0, 0, 12}},
                            {{"t",
                              DType::F16,
                              {3},
                              6,
                              {{0, 0, 0, 4, {}}, {0, 0, 8, 0, {}}, {0, 0, 4, 2, {}}},
                              false,
                              true}});
  const auto out = interpret(program, [&](const ProgramSource&) { return source; });
  EXPECT_EQ(out, std::vector<Bytes>{bytes_of({0, 0x7c, 0, 0xc0, 0, 0x3c})});
}

TEST(InterpretTest, AnEmptyTargetHasNoBytes) {
  EXPECT_EQ(run(program_of({}, 0)), std::vector<Bytes>{Bytes{}});
}

}  // namespace
}  // namespace weightloom
