#include "weightloom/cli/usage_hint.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(UsageHintTest, TheNearestWordIsTheOneWithFewestTypos) {
  const std::vector<std::string> words = {"--include", "--exclude", "--lenient", "--to"};
  EXPECT_EQ(nearest_word("--lenint", words), "--lenient");
  EXPECT_EQ(nearest_word("--exlude", words), "--exclude");
  EXPECT_EQ(nearest_word("--inklude", words), "--include");
  EXPECT_EQ(nearest_word("--lenient", words), "--lenient");
}

TEST(UsageHintTest, WhatIsFarFromEverythingHasNoNearestWord) {
  EXPECT_EQ(nearest_word("--mesh", {"--include", "--to"}), "");
  EXPECT_EQ(nearest_word("", {"plan"}), "");
  EXPECT_EQ(nearest_word("plan", {}), "");
}

}  // namespace
}  // namespace weightloom::cli
