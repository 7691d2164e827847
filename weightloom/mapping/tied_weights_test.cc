#include "weightloom/mapping/tied_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Names = std::vector<std::string>;
using Pairs = std::vector<TiedPair>;

TEST(TiedWeights, WholeNamesStandAsTheyAre) {
  EXPECT_THAT(expand_tied(Pairs{{"head.weight", "embed.weight"}}, Names{}),
              ElementsAre(Pair("head.weight", "embed.weight")));
}

TEST(TiedWeights, ModulesAndPatternsAreWrittenOut) {
  const Names names = {"box.0.bias",     "box.0.weight",     "box.1.bias", "box.1.weight",
                       "dec.box.0.bias", "dec.box.0.weight", "other"};
  EXPECT_THAT(
      expand_tied(Pairs{{R"(box.(?![0])\d+)", "box.0"}, {"dec.box", "box.0"}}, names),
      ElementsAre(Pair("box.1.bias", "box.0.bias"), Pair("box.1.weight", "box.0.weight"),
                  Pair("dec.box.0.bias", "box.0.bias"), Pair("dec.box.0.weight", "box.0.weight")));
}

TEST(TiedWeights, WhatDoesNotPairUpIsNotTied) {
  const Names names = {"a.x", "a.y", "b.x", "b.y", "b.z"};
  EXPECT_THAT(expand_tied(Pairs{{"b", "a"}}, names), IsEmpty());
  EXPECT_THAT(expand_tied(Pairs{{"b", "absent"}}, names), IsEmpty());
}

TEST(TiedWeights, TheOneThatIsThereStandsForTheOther) {
  const Pairs pairs = {{"head.weight", "embed.weight"}};
  const TiedName head{"head.weight", "embed.weight"};
  const TiedName embed{"embed.weight", "head.weight"};
  EXPECT_THAT(resolve_tied(pairs, Names{"embed.weight"}, Names{}).restored, ElementsAre(head));
  EXPECT_THAT(resolve_tied(pairs, Names{"head.weight"}, Names{}).restored, ElementsAre(embed));
  EXPECT_THAT(resolve_tied(pairs, Names{"embed.weight"}, Names{"embed.weight"}).restored,
              IsEmpty());
}

TEST(TiedWeights, BothStoredIsForTheValuesToTell) {
  const auto outcome = resolve_tied(Pairs{{"h", "e"}}, Names{"e", "h"}, Names{});
  EXPECT_THAT(outcome.restored, IsEmpty());
  EXPECT_THAT(outcome.stored, ElementsAre(TiedName{"h", "e"}));
}

TEST(TiedWeights, AThirdNameIsFoundThroughTheOthers) {
  const auto outcome = resolve_tied(Pairs{{"enc", "shared"}, {"dec", "shared"}}, Names{"dec"}, {});
  EXPECT_THAT(outcome.restored, ElementsAre(TiedName{"shared", "dec"}, TiedName{"enc", "dec"}));
}

TEST(TiedWeights, NothingThereRestoresNothing) {
  EXPECT_THAT(resolve_tied(Pairs{{"h", "e"}}, Names{"x"}, Names{}).restored, IsEmpty());
}

}  // namespace
}  // namespace weightloom
