#include "weightloom/cli/progress_bar.h"

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ProgressBarTest, SaysShareRateTimeLeftAndMemory) {
  const ProgressState state = {{30 * kMiB, 40 * kMiB, "model.norm.weight"}, 3.0, 0, 5 * kMiB};
  EXPECT_EQ(progress_line(state, 200),
            " 75% [###############.....]   30.00 MiB of 40.00 MiB   10.00 MiB/s     0:01 left  "
            "5.00 MiB memory  model.norm.weight");
}

TEST(ProgressBarTest, ResumedBytesSayNothingAboutSpeed) {
  const ProgressState state = {{30 * kMiB, 40 * kMiB, "t"}, 2.0, 20 * kMiB, 0};
  EXPECT_NE(progress_line(state, 200).find("5.00 MiB/s     0:02 left"), std::string::npos);
}

TEST(ProgressBarTest, IsCutToTheTerminal) {
  const ProgressState state = {{0, 0, "层层层"}, 0, 0, 0};
  EXPECT_EQ(progress_line(state, 4), "100%");
}

TEST(ProgressBarTest, WithoutProgressThereIsNoRate) {
  const ProgressState state = {{0, 10, "t"}, 0, 0, 0};
  EXPECT_EQ(
      progress_line(state, 200),
      "  0% [....................]         0 B of 10 B             -        - left  0 B memory  t");
}

TEST(ProgressBarTest, Durations) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(67), "1:07");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

}  // namespace
}  // namespace weightloom::cli
