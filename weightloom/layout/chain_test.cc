#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/layout/coalesce.h"
#include "weightloom/layout/coverage.h"

namespace weightloom::testing {
namespace {

template <typename Check>
void for_each_chain(int chains, Check check) {
  for (int i = 0; i < chains; ++i) {
    const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
    SeededDraw draw(seed);
    Chain<SeededDraw> chain(draw);
    for (int step = 0; step < 9; ++step) {
      chain.step();
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed << ": " << chain.story());
      check(chain);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(ChainTest, EveryResultEqualsTheDenseOne) {
  for_each_chain(4000, [](const auto& chain) {
    ASSERT_EQ(gather(chain.layout(), chain.sources()), chain.dense());
  });
}

TEST(ChainTest, EveryResultHoldsTheInvariant) {
  for_each_chain(2000, [](const auto& chain) { ASSERT_EQ(invariant_fault(chain.layout()), ""); });
}

TEST(ChainTest, OperationsKeepExactlyOnce) {
  for_each_chain(2000, [](const auto& chain) {
    ASSERT_FALSE(coverage_fault(chain.layout())) << to_string(chain.layout());
  });
}

TEST(ChainTest, NotationGivesEveryResultBack) {
  for_each_chain(500, [](const auto& chain) {
    const Layout& layout = chain.layout();
    const Layout parsed = parse_layout(to_string(layout));
    ASSERT_EQ(parsed.shape(), layout.shape());
    ASSERT_TRUE(std::ranges::equal(parsed.regions(), layout.regions())) << to_string(layout);
  });
}

TEST(ChainTest, CoalescingKeepsThePairs) {
  for_each_chain(1000, [](const auto& chain) {
    const auto regions = chain.layout().regions();
    const Layout joined =
        Layout::unchecked(chain.layout().shape(), coalesce({regions.begin(), regions.end()}));
    ASSERT_EQ(pairs_of(joined.regions()), pairs_of(regions));
    ASSERT_EQ(invariant_fault(joined), "");
    ASSERT_LE(joined.regions().size(), regions.size());
  });
}

}  // namespace
}  // namespace weightloom::testing
