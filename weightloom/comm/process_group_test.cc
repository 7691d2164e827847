#include "weightloom/comm/process_group.h"

#include <array>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/comm/group_runs_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::span<std::byte> memory_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A text whose length differs by rank and is 0 for the first: "", "1", "22", "333".
std::string text_of_rank(int64_t rank) {
  return std::string(static_cast<size_t>(rank), static_cast<char>('0' + rank));
}

TEST(ProcessGroupTest, EachRankHasItsNumber) {
  on_every_rank([](ProcessGroup& group) {
    EXPECT_EQ(group.size(), kTestRanks);
    EXPECT_EQ(group.all_reduce(Reduction::sum, int64_t{1} << group.rank()), 0b1111);
    EXPECT_EQ(group.world_rank(), group.rank());
  });
}

TEST(ProcessGroupTest, GatheringKeepsUnevenSizesApart) {
  on_every_rank([](ProcessGroup& group) {
    std::vector<std::string> texts;
    for (const auto& bytes : group.all_gather_v(bytes_of(text_of_rank(group.rank())))) {
      texts.push_back(text_of(bytes));
    }
    EXPECT_THAT(texts, ElementsAre("", "1", "22", "333"));
  });
}

TEST(ProcessGroupTest, GatheringFillsTheCallersMemoryInPlace) {
  on_every_rank([](ProcessGroup& group) {
    const std::array<int64_t, 4> sizes = {0, 1, 2, 3};
    std::string all(6, '-');
    const auto at = static_cast<size_t>(group.rank() * (group.rank() - 1) / 2);
    const std::string mine = text_of_rank(group.rank());
    std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(at));
    group.all_gather_into(memory_of(all).subspan(at, mine.size()), sizes, memory_of(all));
    EXPECT_EQ(all, "122333");
  });
}

TEST(ProcessGroupTest, EveryRankCanBeTheRootOfABroadcast) {
  on_every_rank([](ProcessGroup& group) {
    for (int64_t root = 0; root < group.size(); ++root) {
      std::string text = group.rank() == root ? "from " + std::to_string(root) : "------";
      group.broadcast(root, memory_of(text));
      EXPECT_EQ(text, "from " + std::to_string(root));
    }
  });
}

TEST(ProcessGroupTest, ValuesAreReducedOneByOne) {
  on_every_rank([](ProcessGroup& group) {
    const std::array<int64_t, 2> mine = {group.rank(), -10 * group.rank()};
    EXPECT_THAT(group.all_reduce(Reduction::sum, mine), ElementsAre(6, -60));
    EXPECT_THAT(group.all_reduce(Reduction::min, mine), ElementsAre(0, -30));
    EXPECT_THAT(group.all_reduce(Reduction::max, mine), ElementsAre(3, 0));
    EXPECT_THAT(group.all_reduce(Reduction::max, std::span<const int64_t>()), ElementsAre());
  });
}

TEST(ProcessGroupTest, ASumThatDoesNotFitIsRefusedOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    const auto refusal = refusal_of([&] { group.all_reduce(Reduction::sum, int64_t{1} << 62); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::usage);
    group.barrier();
  });
}

TEST(ProcessGroupTest, MessagesWithOneTagKeepTheirOrder) {
  on_every_rank([](ProcessGroup& group) {
    if (group.rank() == 1) {
      for (const std::string_view text : {"one", "two"}) group.send(3, 7, bytes_of(text));
      group.send(3, 8, {});
    } else if (group.rank() == 3) {
      std::string first(3, '-');
      std::string second(3, '-');
      group.recv(1, 7, memory_of(first));
      group.recv(1, 7, memory_of(second));
      group.recv(1, 8, {});
      EXPECT_EQ(first + second, "onetwo");
    }
  });
}

TEST(ProcessGroupTest, AnExchangeGoesBothWaysAtOnceAndToItself) {
  on_every_rank([](ProcessGroup& group) {
    constexpr size_t kLarge = 1 << 20;  // too large to leave before it is received
    std::vector<std::string> mine;
    std::vector<std::string> theirs(static_cast<size_t>(group.size()), std::string(kLarge, '-'));
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int64_t other = 0; other < group.size(); ++other) {
      mine.emplace_back(kLarge, static_cast<char>('a' + 4 * group.rank() + other));
    }
    for (int64_t other = 0; other < group.size(); ++other) {
      const auto place = static_cast<size_t>(other);
      outgoing.push_back({other, 0, bytes_of(mine[place])});
      incoming.push_back({other, 0, memory_of(theirs[place])});
    }
    group.exchange(outgoing, incoming);
    for (int64_t other = 0; other < group.size(); ++other) {
      EXPECT_EQ(theirs[static_cast<size_t>(other)],
                std::string(kLarge, static_cast<char>('a' + 4 * other + group.rank())));
    }
  });
}

TEST(ProcessGroupTest, ASubGroupHasItsOwnOrderAndMessages) {
  on_every_rank([](ProcessGroup& group) {
    // 0 and 2 in one, 3 and 1, in this order, in the other.
    const bool even = group.rank() % 2 == 0;
    const auto half =
        group.sub_group(even ? std::array<int64_t, 2>{0, 2} : std::array<int64_t, 2>{3, 1});
    EXPECT_EQ(half->size(), 2);
    EXPECT_EQ(half->rank(), group.rank() == 0 || group.rank() == 3 ? 0 : 1);
    EXPECT_EQ(half->world_rank(), group.rank());
    std::string first = group.rank() == 0 || group.rank() == 3 ? text_of_rank(3) : "---";
    half->broadcast(0, memory_of(first));
    EXPECT_EQ(first, "333");
    EXPECT_EQ(half->all_reduce(Reduction::sum, group.rank()), even ? 2 : 4);
    const auto alone = half->sub_group(std::array{half->rank()});
    EXPECT_EQ(alone->all_reduce(Reduction::sum, group.rank()), group.rank());
    EXPECT_EQ(alone->world_rank(), group.rank());
  });
}

TEST(ProcessGroupTest, WhatIsNotOfTheGroupIsRefused) {
  on_every_rank([](ProcessGroup& group) {
    const auto refused = [](const auto& run, const std::string& text) {
      const auto refusal = refusal_of(run);
      ASSERT_TRUE(refusal) << text;
      EXPECT_EQ(refusal->code(), ErrorCode::usage);
      EXPECT_THAT(refusal->what(), HasSubstr(text));
    };
    refused([&] { group.send(4, 0, {}); }, "rank 4 of a group of 4 ranks");
    refused([&] { group.recv(-1, 0, {}); }, "rank -1 of a group of 4 ranks");
    refused([&] { group.send(0, kTags, {}); }, "message tag 1024, needed one in [0, 1024)");
    refused([&] { group.sub_group(std::array<int64_t, 2>{1, 1}); }, "rank 1 stands twice");
    refused([&] { group.sub_group(std::array{(group.rank() + 1) % 4}); },
            "is not of the sub-group");
    const std::array<int64_t, 4> sizes = {1, 1, 1, 1};
    std::string all(4, '-');
    refused([&] { group.all_gather_into(bytes_of("22"), sizes, memory_of(all)); },
            "gives 2 bytes where 1 were announced");
    refused([&] { group.all_gather_into(bytes_of("1"), sizes, {}); },
            "memory of 0 bytes to gather 4");
    group.barrier();
  });
}

TEST(ProcessGroupTest, AMessageOfAnotherSizeIsRefusedByItsReceiver) {
  for (const std::string_view sent : {"22", "4444"}) {
    const auto refusal = refusal_of([&] {
      on_every_rank([&](ProcessGroup& group) {
        std::string memory(3, '-');
        if (group.rank() == 1) group.send(2, 5, bytes_of(sent));
        if (group.rank() == 2) group.recv(1, 5, memory_of(memory));
        group.barrier();
      });
    });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::usage);
    EXPECT_THAT(refusal->what(), HasSubstr("from rank 1 with tag 5, needed 3 bytes"));
  }
}

TEST(ProcessGroupTest, ARankThatThrowsEndsAllWithItsError) {
  const auto refusal = refusal_of([] {
    on_every_rank([](ProcessGroup& group) {
      if (group.rank() == 2) throw Error(ErrorCode::no_space, "the disk is full", "free some");
      group.barrier();
    });
  });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::no_space);
  EXPECT_STREQ(refusal->what(), "rank 2: the disk is full");
}

TEST(ProcessGroupTest, AnAbortReleasesWhoeverWaitsInWhatever) {
  on_every_rank([](ProcessGroup& group) {
    const bool low = group.rank() < 2;
    std::string large(4 << 20, '-');
    const auto refusal = refusal_of([&] {
      const auto half =
          group.sub_group(low ? std::array<int64_t, 2>{0, 1} : std::array<int64_t, 2>{2, 3});
      if (group.rank() == 1) group.abort(Error(ErrorCode::format, "a broken header"));
      if (group.rank() == 0) half->recv(1, 0, memory_of(large));  // from the one that aborted
      if (group.rank() == 2) group.send(1, 0, bytes_of(large));   // to it
      half->barrier();
    });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::format);
    EXPECT_STREQ(refusal->what(), "rank 1: a broken header");
    EXPECT_TRUE(refusal_of([&] { group.barrier(); })) << "the group is of no use any more";
  });
}

}  // namespace
}  // namespace weightloom::testing
