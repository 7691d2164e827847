#include "weightloom/layout/coalesce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/layout/operations.h"

namespace weightloom::testing {
namespace {

std::string coalesced(const std::string& text) {
  const Layout layout = parse_layout(text);
  return to_string(Layout::unchecked(layout.shape(),
                                     coalesce({layout.regions().begin(), layout.regions().end()})));
}

size_t coalesced_count(const Layout& layout) {
  return coalesce({layout.regions().begin(), layout.regions().end()}).size();
}

TEST(CoalesceTest, RunsThatContinueBecomeOne) {
  EXPECT_EQ(coalesced("(6):[2<-s0+2 (4:1<-1); 0<-s0+0 (2:1<-1)]"), "(6):[0<-s0+0 (6:1<-1)]");
}

TEST(CoalesceTest, EqualStepsBecomeAnAxis) {
  EXPECT_EQ(coalesced("(9):[0<-s0+0 (2:1<-1); 3<-s0+10 (2:1<-1); 6<-s0+20 (2:1<-1)]"),
            "(9):[0<-s0+0 (3:3<-10, 2:1<-1)]");
}

TEST(CoalesceTest, ARegionMayContinueAnyAxisOfTheOneBefore) {
  EXPECT_EQ(coalesced("(12):[0<-s0+0 (2:4<-9, 2:1<-1); 8<-s0+18 (2:1<-1)]"),
            "(12):[0<-s0+0 (3:4<-9, 2:1<-1)]");
  EXPECT_EQ(coalesced("(12):[0<-s0+0 (2:1<-1); 4<-s0+9 (2:4<-9, 2:1<-1)]"),
            "(12):[0<-s0+0 (3:4<-9, 2:1<-1)]");
  EXPECT_EQ(coalesced("(2, 6):[0<-s0+0 (2:6<-4, 3:1<-1); 3<-s0+3 (2:6<-4)]"),
            "(2, 6):[0<-s0+0 (2:6<-4, 4:1<-1)]");
}

TEST(CoalesceTest, WhatWasJoinedIsJoinedOn) {
  // Elements 1 and 2 join first; the pair then continues element 0.
  EXPECT_EQ(coalesced("(4):[0<-s0+0; 1<-s0+1; 2<-s0+2; 3<-s0+3]"), "(4):[0<-s0+0 (4:1<-1)]");
}

TEST(CoalesceTest, PadsOfOneValueJoin) {
  EXPECT_EQ(coalesced("(6):[0<-pad(0) (2:1); 2<-pad(0) (3:1); 5<-pad(1)]"),
            "(6):[0<-pad(0) (5:1); 5<-pad(1)]");
}

TEST(CoalesceTest, DifferentSourcesStayApart) {
  const std::string text = "(4):[0<-s0+0 (2:1<-1); 2<-s1+2 (2:1<-1)]";
  EXPECT_EQ(coalesced(text), text);
}

TEST(CoalesceTest, StepsBackInTheSourceStayApart) {
  const std::string text = "(4):[0<-s0+2 (2:1<-1); 2<-s0+0 (2:1<-1)]";
  EXPECT_EQ(coalesced(text), text);
}

TEST(CoalesceTest, AJoinThatWouldNotBeNestedIsNotMade) {
  // Rows of 3 at a step of 2 in the source overlap: two regions, not one.
  const std::string text = "(6):[0<-s0+0 (3:1<-1); 3<-s0+2 (3:1<-1)]";
  EXPECT_EQ(coalesced(text), text);
}

TEST(CoalesceTest, ATensorCutAndPutTogetherIsOneRegion) {
  const Layout whole = identity(0, {6, 8, 5});
  for (int dim = 0; dim < 3; ++dim) {
    EXPECT_EQ(coalesced_count(concat(unstack(stack(std::vector<Layout>{whole}, dim), dim), dim)),
              1U);
    const std::vector<int64_t> sizes = {1, whole.shape()[static_cast<size_t>(dim)] - 1};
    EXPECT_EQ(coalesced_count(concat(split(whole, dim, sizes), dim)), 1U);
  }
}

TEST(CoalesceTest, ExpertsOfOneTensorUnstackedAndStackedAreOneRegion) {
  const Layout experts = identity(0, {256, 16, 7});
  EXPECT_EQ(coalesced_count(stack(unstack(experts, 0), 0)), 1U);
  EXPECT_EQ(coalesced_count(stack(unstack(experts, 0), 2)), 1U);
}

}  // namespace
}  // namespace weightloom::testing
