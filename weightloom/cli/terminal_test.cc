#include "weightloom/cli/terminal.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(TerminalTest, ControlCharactersOfNamesAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(printable("层.é"), "层.é");
}

TEST(TerminalTest, StyleNeedsColour) {
  EXPECT_EQ(styled({}, Style::red, "no"), "no");
  EXPECT_EQ(styled({.interactive = true, .colour = true}, Style::red, "no"), "\x1b[31mno\x1b[0m");
}

TEST(TerminalTest, ColumnsAreCharacters) {
  EXPECT_EQ(display_columns("层é"), 2);
  EXPECT_EQ(first_columns("层éx", 2), "层é");
  EXPECT_EQ(first_columns("ab", 7), "ab");
  EXPECT_EQ(first_columns("ab", 0), "");
}

TEST(TerminalTest, AFileIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(terminal_of(file).interactive);
  EXPECT_FALSE(terminal_of(file).colour);
  std::fclose(file);
}

}  // namespace
}  // namespace weightloom::cli
