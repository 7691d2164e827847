#include "weightloom/layout/axis_list.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Axis axis(int64_t n) { return {n, 10 * n, 100 * n}; }

AxisList counted(int64_t count) {
  AxisList list;
  for (int64_t i = 1; i <= count; ++i) list.push_back(axis(i));
  return list;
}

TEST(AxisListTest, KeepsItsAxesInOrderBeyondWhatFitsInPlace) {
  EXPECT_THAT(counted(5), ElementsAre(axis(1), axis(2), axis(3), axis(4), axis(5)));
  EXPECT_EQ(counted(5).back(), axis(5));
  EXPECT_EQ(counted(2), AxisList({axis(1), axis(2)}));
}

TEST(AxisListTest, ACopyIsAnotherList) {
  for (int64_t size : {0, 2, 7}) {
    AxisList original = counted(size);
    AxisList copy = original;
    copy.push_back(axis(9));
    EXPECT_EQ(original, counted(size));
    original = copy;
    EXPECT_EQ(original.size(), static_cast<size_t>(size) + 1);
    EXPECT_EQ(original.back(), axis(9));
  }
}

TEST(AxisListTest, AMovedListIsEmptyAndUsable) {
  for (int64_t size : {1, 3, 4, 9}) {
    AxisList from = counted(size);
    AxisList to = std::move(from);
    EXPECT_EQ(to, counted(size));
    EXPECT_THAT(from, IsEmpty());
    from.push_back(axis(2));
    EXPECT_THAT(from, ElementsAre(axis(2)));
  }
}

TEST(AxisListTest, InsertAndEraseKeepTheOthers) {
  AxisList list = counted(3);
  list.insert(list.begin(), axis(7));
  list.insert(list.begin() + 2, axis(8));
  EXPECT_THAT(list, ElementsAre(axis(7), axis(1), axis(8), axis(2), axis(3)));
  list.erase(list.begin() + 1);
  list.erase(list.end() - 1);
  EXPECT_THAT(list, ElementsAre(axis(7), axis(8), axis(2)));
}

TEST(AxisListTest, PushingAnAxisOfItsOwnIsSafe) {
  AxisList list = counted(3);
  list.push_back(list.front());
  EXPECT_THAT(list, ElementsAre(axis(1), axis(2), axis(3), axis(1)));
}

TEST(AxisListTest, ResizeFillsWithTheDefaultAxisAndCuts) {
  AxisList list = counted(2);
  list.resize(4);
  EXPECT_THAT(list, ElementsAre(axis(1), axis(2), Axis{}, Axis{}));
  list.resize(1);
  EXPECT_THAT(list, ElementsAre(axis(1)));
}

}  // namespace
}  // namespace weightloom
