#include "weightloom/comm/unshard.h"

#include <array>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/parts_testing.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Of ranks 0..3 as `ep=2,fsdp=2`.
GroupRanks fsdp_group(int64_t rank) { return {rank / 2 * 2, rank / 2 * 2 + 1}; }
GroupRanks ep_group(int64_t rank) { return {rank % 2, rank % 2 + 2}; }

TEST(UnshardTest, TwoAxesAreUndoneInTwoRounds) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const int64_t rank = group.rank();
    // 9 rows: ep cuts 5 and 4, fsdp cuts 3, 2 and 2, 2.
    const int64_t begin = std::array<int64_t, 4>{0, 3, 5, 7}[static_cast<size_t>(rank)];
    const int64_t rows = rank == 0 ? 3 : 2;
    const auto mine = rows_of({9, 2}, 0, {{begin, begin + rows}});
    const Shape of_ep = {rank < 2 ? 5 : 4, 2};
    const ShardedPart part{"experts",
                           DType::I32,
                           {rows, 2},
                           bytes_of(mine),
                           {{fsdp_group(rank), 0, {}, of_ep}, {ep_group(rank), 0, {}, {9, 2}}}};
    const auto whole = unshard_tensors(groups, std::span(&part, 1));
    EXPECT_THAT(numbers_of(whole[0].bytes), ElementsAreArray(rows_of({9, 2}, 0, {{0, 9}})));
  });
}

TEST(UnshardTest, EmptyPartsStripesAndPaddingComeRight) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const int64_t rank = group.rank();
    const GroupRanks all = {0, 1, 2, 3};
    // 9 columns over 4: 3, 3, 3, 0, of which 2 are padding.
    const int64_t columns = rank < 3 ? 3 : 0;
    const auto uneven = rows_of({2, 9}, 1, {{3 * rank, 3 * rank + columns}});
    // Two stripes of 4 rows: 0 4 | 1 5 | 2 6 | 3 7.
    const auto striped = rows_of({8}, 0, {{rank, rank + 1}, {rank + 4, rank + 5}});
    const std::vector<ShardedPart> parts = {
        {"uneven",
         DType::I32,
         {2, columns},
         bytes_of(uneven),
         {{all, 1, {}, {2, 9}}},
         {{{0, 2}}, {{0, 7}}}},
        {"striped", DType::I32, {2}, bytes_of(striped), {{all, 0, {.stripes = 2}, {8}}}}};
    const auto whole = unshard_tensors(groups, parts);
    EXPECT_THAT(numbers_of(whole[0].bytes), ElementsAreArray(rows_of({2, 9}, 1, {{0, 7}})));
    EXPECT_THAT(numbers_of(whole[1].bytes), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  });
}

TEST(UnshardTest, WhatIsWholeOrKeptIsNotCopied) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const std::vector<int32_t> mine = {7, 8, static_cast<int32_t>(group.rank())};
    const ShardedPart part{"norm", DType::I32, {3}, bytes_of(mine)};
    const auto whole = unshard_tensors(groups, std::span(&part, 1));
    EXPECT_EQ(whole[0].bytes.data(), bytes_of(mine).data());
  });
}

TEST(UnshardTest, BucketsBoundWhatIsGatheredAndKeepTheOrder) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    std::vector<std::vector<int32_t>> mine;
    std::vector<ShardedPart> parts;
    for (int64_t i = 0; i < 7; ++i)
      mine.push_back(rows_of({4, i}, 0, {{group.rank(), group.rank() + 1}}));
    for (int64_t i = 0; i < 7; ++i) {
      parts.push_back({"t" + std::to_string(i),
                       DType::I32,
                       {1, i},
                       bytes_of(mine[static_cast<size_t>(i)]),
                       {{{0, 1, 2, 3}, 0, {}, {4, i}}}});
    }
    size_t next = 0;
    std::vector<size_t> firsts;
    unshard_in_buckets(groups, parts, 64, [&](size_t first, std::span<const UnshardedTensor> some) {
      firsts.push_back(first);
      for (const UnshardedTensor& tensor : some) {
        const auto columns = static_cast<int64_t>(next++);
        EXPECT_THAT(numbers_of(tensor.bytes), ElementsAreArray(rows_of({4, columns}, 0, {{0, 4}})));
      }
    });
    EXPECT_EQ(next, 7U);
    EXPECT_THAT(firsts, ElementsAre(0, 3, 4, 5, 6)) << "of 0, 16, 32, 48, 64, 80 and 96 bytes";
  });
}

TEST(UnshardTest, APartThatDoesNotFitIsAnErrorOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const std::vector<int32_t> mine(group.rank() == 2 ? 3 : 2);
    const ShardedPart part{
        "w", DType::I32, {std::ssize(mine)}, bytes_of(mine), {{{0, 1, 2, 3}, 0, {}, {8}}}};
    const auto refusal = refusal_of([&] { unshard_tensors(groups, std::span(&part, 1)); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::usage);
    EXPECT_STREQ(refusal->what(),
                 "rank 2: tensor 'w': its part has shape [3], but part 2 of 4 of [8] needs [2]");
    group.barrier();
  });
}

TEST(UnshardTest, RanksThatGiveOtherTensorsAreNamed) {
  on_every_rank([](ProcessGroup& group) {
    GroupCache groups(group);
    const std::vector<int32_t> mine = {1};
    const ShardedPart part{group.rank() == 1 ? "v" : "w", DType::I32, {1}, bytes_of(mine)};
    const auto refusal = refusal_of([&] { unshard_tensors(groups, std::span(&part, 1)); });
    ASSERT_TRUE(refusal);
    EXPECT_THAT(refusal->what(), HasSubstr("rank 1: the list of tensors to unshard is not that"));
  });
}

TEST(UnshardTest, RandomCutsOfRandomMeshesComeBackWhole) {
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << test_seed());
  std::mt19937_64 draw(test_seed());
  for (int trial = 0; trial < 40; ++trial) {
    const RandomTensors random = random_tensors(draw);
    on_every_rank([&](ProcessGroup& group) {
      GroupCache groups(group);
      const std::vector<LocalTensor> locals = random.of_rank(group.rank());
      std::vector<ShardedPart> parts;
      for (const LocalTensor& local : locals) parts.push_back(local.part);
      const auto whole = unshard_tensors(groups, parts);
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_THAT(numbers_of(whole[i].bytes), ElementsAreArray(counted(random.shapes[i])))
            << random.story;
      }
    });
  }
}

}  // namespace
}  // namespace weightloom::testing
