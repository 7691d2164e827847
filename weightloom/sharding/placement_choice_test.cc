#include <gtest/gtest.h>

#include "weightloom/sharding/placement_choice_internal.h"

namespace weightloom::internal {
namespace {

const OrderTrial kFits = {.fits = true};
const OrderTrial kTwo = {.given = "[2]"};
const OrderTrial kThree = {.given = "[3]"};

TEST(PlacementChoiceTest, TheOrderThatFitsCounts) {
  EXPECT_EQ(order_fit(kFits, kTwo, false), OrderFit::carving);
  EXPECT_EQ(order_fit(kTwo, kFits, false), OrderFit::left_to_right);
  EXPECT_EQ(order_fit(kTwo, kThree, false), OrderFit::neither);
}

TEST(PlacementChoiceTest, OrdersThatBothFitMustCutAlike) {
  EXPECT_EQ(order_fit(kFits, kFits, true), OrderFit::carving);
  EXPECT_EQ(order_fit(kFits, kFits, false), OrderFit::either);
}

TEST(PlacementChoiceTest, WhatBothGiveIsSaidOnce) {
  EXPECT_EQ(given_by_both(kTwo, kTwo), "[2]");
  EXPECT_EQ(given_by_both(kTwo, kThree),
            "[2] where FSDP cut last, [3] as torch reads the placements");
}

}  // namespace
}  // namespace weightloom::internal
