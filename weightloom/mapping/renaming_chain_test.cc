#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/mapping_testing.h"
#include "weightloom/mapping/renaming_chain_internal.h"

namespace weightloom {
namespace {

using testing::renaming;

TEST(RenamingChain, AppliesEachToTheResultOfTheOneBefore) {
  RenamingChain chain(Mapping("m", {renaming("a", "b"), renaming("x", "y"), renaming("b", "c")}));
  std::vector<size_t> fired;
  const auto renamed = chain.rename("a", [&](size_t transform) { fired.push_back(transform); });
  EXPECT_EQ(renamed.name, "c");
  EXPECT_EQ(renamed.last, 2u);
  EXPECT_THAT(fired, ::testing::ElementsAre(0, 2));
}

TEST(RenamingChain, SaysThatNothingActed) {
  RenamingChain chain(Mapping("m", {renaming("a", "b")}));
  EXPECT_EQ(chain.rename("x").name, "x");
  EXPECT_EQ(chain.rename("x").last, std::nullopt);
}

/// A guard is looked for in names as the renamings before it leave them.
TEST(RenamingChain, FindsAGuardBehindARenaming) {
  const Mapping mapping("m",
                        {renaming("old", "g0"), GroupWeightRename{{"g0", "g1"}, {"g1", "g2"}}});
  const std::vector<std::string> names = {"g1", "old"};
  RenamingChain chain(mapping);
  EXPECT_EQ(chain.rename("g1").name, "g1");
  chain.decide_guards(names.size(), [&](size_t i) { return std::string_view(names[i]); });
  EXPECT_EQ(chain.rename("g1").name, "g2");
  EXPECT_EQ(chain.rename("old").name, "g1");
  RenamingChain other(mapping);
  other.take_guards(chain);
  EXPECT_EQ(other.rename("g1").name, "g2");
}

TEST(RenamingChain, OfAReversedMappingRunsBackwards) {
  const Mapping mapping("m", {renaming("^a", "b"), renaming("^b", "c")});
  RenamingChain back(mapping.reversed());
  EXPECT_EQ(back.rename("c").name, "a");
}

}  // namespace
}  // namespace weightloom
