#include "weightloom/layout/compose.h"

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/layout/chain_testing.h"

namespace weightloom::testing {
namespace {

TEST(ComposeTest, AMapIntoAMapEqualsGatheringTwice) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 4000; ++seed) {
    SeededDraw draw(seed);
    Chain<SeededDraw> first(draw);
    for (int64_t step = draw(7); step > 0; --step) first.step();
    Chain<SeededDraw> second(draw, first.layout().shape());
    for (int64_t step = draw(7); step > 0; --step) second.step();
    // The second chain's first source is the first chain's result, the others are new.
    std::vector<Layout> inner = {first.layout()};
    std::vector<Dense> between = {first.dense()};
    std::vector<Dense> sources = first.sources();
    for (size_t i = 1; i < second.sources().size(); ++i) {
      const Dense& source = second.sources()[i];
      inner.push_back(identity(static_cast<SourceId>(sources.size()), source.shape));
      between.push_back(source);
      sources.push_back(source);
    }
    SCOPED_TRACE(::testing::Message()
                 << "WEIGHTLOOM_SEED=" << seed << ": " << first.story() << "; " << second.story());
    const Layout both = compose(second.layout(), inner);
    ASSERT_EQ(gather(both, sources), gather(second.layout(), between));
    ASSERT_EQ(invariant_fault(both), "");
  }
}

TEST(ComposeTest, WhatIsNotThereIsRefused) {
  const Layout outer = identity(1, {4});
  const std::vector<Layout> one = {identity(0, {4})};
  EXPECT_TRUE(refusal_of([&] { compose(outer, one); }));
  const std::vector<Layout> small = {identity(0, {4}), identity(0, {3})};
  EXPECT_TRUE(refusal_of([&] { compose(outer, small); }));
}

}  // namespace
}  // namespace weightloom::testing
