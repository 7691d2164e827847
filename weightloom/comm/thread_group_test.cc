#include "weightloom/comm/thread_group.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

TEST(ThreadGroupTest, ThereAreAsManyRanksAsAskedFor) {
  for (const int64_t ranks : {1, 3, 7}) {
    run_on_threads(ranks, [&](ProcessGroup& group) {
      EXPECT_EQ(group.size(), ranks);
      EXPECT_EQ(group.all_reduce(Reduction::max, group.rank()), ranks - 1);
      int64_t number = group.rank() == ranks - 1 ? 42 : 0;
      group.broadcast(ranks - 1, std::as_writable_bytes(std::span(&number, 1)));
      EXPECT_EQ(number, 42);
    });
  }
  EXPECT_EQ(refusal_of([] { thread_groups(0); })->code(), ErrorCode::usage);
}

TEST(ThreadGroupTest, WhatIsNoErrorOfTheLibraryComesOutAsItIs) {
  EXPECT_THROW(run_on_threads(5,
                              [](ProcessGroup& group) {
                                if (group.rank() == 3) throw std::length_error("too long");
                                group.barrier();
                              }),
               std::length_error);
}

TEST(ThreadGroupTest, ManyMessagesCrossWithoutMixing) {
  constexpr int kRounds = 300;
  run_on_threads(3, [](ProcessGroup& group) {
    const int64_t next = (group.rank() + 1) % 3;
    const int64_t before = (group.rank() + 2) % 3;
    int64_t sum = 0;
    for (int64_t round = 0; round < kRounds; ++round) {
      const int64_t mine = round * 10 + group.rank();
      int64_t theirs = 0;
      group.exchange(
          std::array{Outgoing{next, 1, std::as_bytes(std::span(&mine, 1))}},
          std::array{Incoming{before, 1, std::as_writable_bytes(std::span(&theirs, 1))}});
      EXPECT_EQ(theirs, round * 10 + before);
      sum += theirs;
    }
    EXPECT_EQ(sum, kRounds * (kRounds - 1) * 5 + kRounds * before);
  });
}

}  // namespace
}  // namespace weightloom
