#include "weightloom/base/quote.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weightloom {
namespace {

TEST(Quote, ShowsPlainTextAsItIs) {
  EXPECT_EQ(quote(""), "''");
  EXPECT_EQ(quote("层.é weight"), "'层.é weight'");
}

TEST(Quote, DefusesControlCharacters) {
  EXPECT_EQ(quote("a\x1b[2J\n\x7f"), "'a\\x1b[2J\\x0a\\x7f'");
}

TEST(Quote, LeavesOutTheMiddleOfLongText) {
  const std::string end(140, 'a');
  EXPECT_EQ(quote(std::string(300, 'a')), fmt::format("'{}'", std::string(300, 'a')));
  EXPECT_EQ(quote(std::string(301, 'a')), fmt::format("'{0}… (301 bytes) …{0}'", end));
}

TEST(Quote, NeverCutsACharacterInTwo) {
  std::string text = "a";
  for (int i = 0; i < 200; ++i) text += "é";  // two bytes each, so byte 140 is within one
  std::string shown = quote(text);
  EXPECT_EQ(shown.substr(138, 5), "é…");
}

}  // namespace
}  // namespace weightloom
