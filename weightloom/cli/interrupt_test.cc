#include "weightloom/cli/interrupt.h"

#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

namespace weightloom::cli {
namespace {

bool is_requested_soon(const std::stop_token& token) {
  for (int i = 0; i < 1000 && !token.stop_requested(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return token.stop_requested();
}

TEST(InterruptTest, ASignalRequestsAStop) {
  for (int signal : {SIGINT, SIGTERM}) {
    InterruptWatch watch;
    EXPECT_FALSE(watch.token().stop_requested());
    std::raise(signal);
    EXPECT_TRUE(is_requested_soon(watch.token()));
  }
}

TEST(InterruptTest, WithoutASignalNothingIsRequested) {
  std::stop_token token;
  {
    InterruptWatch watch;
    token = watch.token();
  }
  EXPECT_FALSE(token.stop_requested());
}

TEST(InterruptTest, ASecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InterruptWatch watch;
        std::raise(SIGTERM);
        is_requested_soon(watch.token());
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace weightloom::cli
