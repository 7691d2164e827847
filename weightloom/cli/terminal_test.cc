#include "weightloom/cli/terminal.h"

#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weightloom::cli {
namespace {

TEST(TerminalTest, ControlCharactersOfNamesAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(printable("层.é"), "层.é");
}

TEST(TerminalTest, ControlCharactersBeyondAsciiAreShownNotObeyed) {
  EXPECT_EQ(printable("a\u009b31m"), "a\\xc2\\x9b31m");
  EXPECT_EQ(printable("\u202egnp.\u2069"), "\\xe2\\x80\\xaegnp.\\xe2\\x81\\xa9");
  EXPECT_EQ(printable("\u00a0\u2014\xc2"), "\u00a0\u2014\xc2");
}

TEST(TerminalTest, AnOutputFileNeverGetsTheNumberOfAClosedStream) {
  const auto opens_with_all_closed = [] {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    occupy_standard_streams();
    const bool fails = write(1, "x", 1) < 0 && write(2, "x", 1) < 0;
    std::_Exit(fails && open("/dev/null", O_RDONLY) > 2 ? 0 : 1);
  };
  EXPECT_EXIT(opens_with_all_closed(), ::testing::ExitedWithCode(0), "");
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
