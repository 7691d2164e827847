#include "weightloom/base/quote.h"

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
  EXPECT_EQ(quote(std::string(300, 'a')), "'" + std::string(300, 'a') + "'");
  EXPECT_EQ(quote(std::string(301, 'a')),
            "'" + std::string(140, 'a') + "… (301 bytes) …" + std::string(140, 'a') + "'");
}

TEST(Quote, NeverCutsACharacterInTwo) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "é";
  text.insert(0, "a");
  std::string shown = quote(text);
  EXPECT_EQ(shown.substr(139, 5), "é…");
}

}  // namespace
}  // namespace weightloom
