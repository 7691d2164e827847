#include "weightloom/execute/arena.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

TEST(ArenaTest, IsZeroAndWritableToItsLastByte) {
  const Arena arena(3'000'001);
  ASSERT_EQ(arena.bytes().size(), 3'000'001U);
  EXPECT_TRUE(std::ranges::all_of(arena.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  arena.bytes().back() = std::byte{7};
  EXPECT_EQ(arena.bytes()[3'000'000], std::byte{7});
}

TEST(ArenaTest, BeginsAtAHugePage) {
  for (int64_t size : {1, 4096, 2 << 20, (2 << 20) + 1}) {
    const Arena arena(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.bytes().data()) % (2U << 20), 0U) << size;
  }
}

TEST(ArenaTest, OfNoBytesHoldsNothing) { EXPECT_TRUE(Arena(0).bytes().empty()); }

TEST(ArenaTest, MovingKeepsTheBytesAndEmptiesTheSource) {
  Arena first(100);
  first.bytes()[99] = std::byte{5};
  Arena second(std::move(first));
  EXPECT_EQ(second.bytes()[99], std::byte{5});
  Arena third(7);
  third = std::move(second);
  EXPECT_EQ(third.bytes().size(), 100U);
  EXPECT_EQ(third.bytes()[99], std::byte{5});
  EXPECT_TRUE(second.bytes().empty());  // NOLINT(bugprone-use-after-move): what a move leaves
}

TEST(ArenaTest, MoreThanTheAddressSpaceIsRefusedWithTheSize) {
  const auto error = refusal_of([] { Arena arena(int64_t{1} << 60); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::no_space);
  EXPECT_NE(std::string(error->what()).find("1.00 EiB"), std::string::npos) << error->what();
}

}  // namespace
}  // namespace weightloom
