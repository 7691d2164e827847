#include "weightloom/base/glob.h"

#include <gtest/gtest.h>

namespace weightloom {
namespace {

TEST(GlobTest, MatchesTheWholeName) {
  EXPECT_TRUE(glob_matches("model.*.weight", "model.layers.0.mlp.weight"));
  EXPECT_TRUE(glob_matches("*", "a/b.c"));
  EXPECT_TRUE(glob_matches("*.bias", ".bias"));
  EXPECT_TRUE(glob_matches("a.[01]", "a.1"));
  EXPECT_TRUE(glob_matches("a.?", "a.7"));
  EXPECT_FALSE(glob_matches("model", "model.norm"));
  EXPECT_FALSE(glob_matches("norm", "model.norm"));
}

}  // namespace
}  // namespace weightloom
