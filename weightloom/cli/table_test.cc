#include "weightloom/cli/table.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(TableTest, PadsLeftAndRightToTheWidestCell) {
  Table table({Align::left, Align::right});
  table.add({"a", "10"});
  table.add({"long", "7"});
  EXPECT_EQ(table.text(),
            "a     10\n"
            "long   7\n");
}

TEST(TableTest, LeavesNoBlanksAtTheEndOfALine) {
  Table table({Align::left, Align::left});
  table.add({"a", "x"});
  table.add({"b", ""});
  table.add({"c"});
  EXPECT_EQ(table.text(2), "  a  x\n  b\n  c\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({Align::left, Align::left});
  table.add({"层é", "1"});
  table.add({"abc", "2"});
  EXPECT_EQ(table.text(), "层é   1\nabc  2\n");
}

TEST(TableTest, AnEmptyTableIsNoText) { EXPECT_EQ(Table({Align::left}).text(), ""); }

}  // namespace
}  // namespace weightloom::cli
