#include "weightloom/cli/quantity.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

TEST(QuantityTest, ParametersHaveThreeDigits) {
  EXPECT_EQ(parameters_text(0), "0");
  EXPECT_EQ(parameters_text(999), "999");
  EXPECT_EQ(parameters_text(1000), "1.00 K");
  EXPECT_EQ(parameters_text(7'241'732'096), "7.24 B");
  EXPECT_EQ(parameters_text(46'702'792'704), "46.7 B");
  EXPECT_EQ(parameters_text(671'026'404'352), "671 B");
  EXPECT_EQ(parameters_text(999'500), "1.00 M");
  EXPECT_EQ(parameters_text(2'000'000'000'000'000), "2000 T");
}

TEST(QuantityTest, OneHasNoPlural) {
  EXPECT_EQ(count_text(0, "file"), "0 files");
  EXPECT_EQ(count_text(1, "file"), "1 file");
  EXPECT_EQ(count_text(2, "file"), "2 files");
}

}  // namespace
}  // namespace weightloom::cli
