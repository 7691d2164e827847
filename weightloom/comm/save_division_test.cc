#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/comm/save_division_internal.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// A program of one target of bytes: `rows` rows, each of `parts` runs of `run` bytes from as many
/// sources.
CopyProgram striped(int64_t rows, int64_t parts, int64_t run) {
  std::vector<ProgramSource> sources;
  ProgramTarget target{"t", DType::U8, {rows, parts * run}, rows * parts * run, {}};
  for (int64_t i = 0; i < parts; ++i) {
    sources.push_back({"s" + std::to_string(i), DType::U8, {rows, run}, 0, 0, rows * run});
    target.regions.push_back(normalized({.source = static_cast<SourceId>(i),
                                         .target_offset = i * run,
                                         .axes = {{rows, parts * run, run}, {run, 1, 1}}}));
  }
  target.disjoint_hulls = false;
  return {{{"f", "f", {}}}, sources, {target}};
}

SourceHolders one_each(int64_t ranks) {
  SourceHolders holders;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    holders.sets.push_back({rank});
    holders.of_source.push_back(static_cast<int32_t>(rank));
  }
  return holders;
}

std::vector<Tile> tiles_of(const CopyProgram& program) {
  return make_schedule(program, std::vector<Placement>{{0, 8}}, {});
}

TEST(SaveDivisionTest, LongRunsAreWrittenByTheirRanks) {
  const CopyProgram program = striped(3, 2, kLongRunBytes);
  const SaveDivision division = divide(program, tiles_of(program), one_each(2), 2);
  EXPECT_TRUE(division.shared.empty());
  ASSERT_EQ(division.own.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    const OwnTile& own = division.own[i];
    EXPECT_EQ(own.writer, static_cast<int64_t>(i % 2));
    EXPECT_EQ(own.tile.parts.front().begin_bytes, 8 + static_cast<int64_t>(i) * kLongRunBytes);
    EXPECT_EQ(own.tile.size_bytes, kLongRunBytes);
    EXPECT_EQ(own.tile.pieces.front().begin_bytes, static_cast<int64_t>(i) * kLongRunBytes);
  }
}

TEST(SaveDivisionTest, ShortRunsGoToOneRankWithWhatTheOthersSend) {
  const CopyProgram program = striped(10, 3, 100);
  const SaveDivision division = divide(program, tiles_of(program), one_each(3), 3);
  EXPECT_TRUE(division.own.empty());
  ASSERT_EQ(division.shared.size(), 1U);
  EXPECT_EQ(division.shared[0].writer, 0);
  EXPECT_THAT(division.shared[0].portions, ElementsAre(Portion{1, 1000}, Portion{2, 1000}));
}

TEST(SaveDivisionTest, ReplicasAreWrittenInTurn) {
  // Four targets that both ranks have whole.
  std::vector<ProgramSource> sources;
  std::vector<ProgramTarget> targets;
  std::vector<Placement> placements;
  for (int32_t i = 0; i < 4; ++i) {
    sources.push_back({"s", DType::U8, {100}, 0, 0, 100});
    targets.push_back({"t", DType::U8, {100}, 100, {{.source = i, .axes = {{100, 1, 1}}}}});
    placements.push_back({i, 0});
  }
  const CopyProgram program({{"f", "f", {}}}, sources, targets);
  const SourceHolders holders{{{0, 1}}, {0, 0, 0, 0}};
  const SaveDivision division = divide(program, make_schedule(program, placements, {}), holders, 2);
  std::vector<int64_t> writers;
  for (const OwnTile& own : division.own) writers.push_back(own.writer);
  EXPECT_THAT(writers, ElementsAre(0, 1, 0, 1));
}

TEST(SaveDivisionTest, ATileGoesToARankThatHasAllOfIt) {
  const CopyProgram program = striped(10, 2, 100);
  const SourceHolders holders{{{0, 2}, {1, 2}}, {0, 1}};
  const SaveDivision division = divide(program, tiles_of(program), holders, 3);
  ASSERT_EQ(division.own.size(), 1U);
  EXPECT_EQ(division.own[0].writer, 2);
}

/// Rows of runs of ranks 0 and 1, then rows of runs of ranks 2 and 3; tiles of 1000 bytes.
SaveDivision division_of_pairs(int64_t rows_of_first, int64_t rows_of_second) {
  std::vector<ProgramSource> sources;
  std::vector<ProgramTarget> targets;
  std::vector<Placement> placements;
  const auto add = [&](int64_t rows, int64_t first_rank) {
    ProgramTarget target{"t", DType::U8, {rows, 100}, rows * 100, {}};
    for (int64_t i = first_rank; i < first_rank + 2; ++i) {
      target.regions.push_back(normalized({.source = static_cast<SourceId>(i),
                                           .target_offset = (i - first_rank) * 50,
                                           .axes = {{rows, 100, 50}, {50, 1, 1}}}));
      sources.push_back({"s", DType::U8, {rows, 50}, 0, 0, rows * 50});
    }
    target.disjoint_hulls = false;
    placements.push_back({static_cast<int32_t>(targets.size()), 0});
    targets.push_back(std::move(target));
  };
  add(rows_of_first, 0);
  add(rows_of_second, 2);
  const CopyProgram program({{"f", "f", {}}}, sources, targets);
  const ScheduleLimits limits{.tile_bytes = 1000, .worker_bytes = 4000};
  return divide(program, make_schedule(program, placements, limits), one_each(4), 4);
}

/// Bytes that each rank makes, and bytes that all receive.
std::pair<std::vector<int64_t>, int64_t> shares_of(const SaveDivision& division) {
  std::vector<int64_t> made(4, 0);
  int64_t received = 0;
  for (const SharedTile& shared : division.shared) {
    made[static_cast<size_t>(shared.writer)] += shared.tile.made_bytes();
    for (const Portion& portion : shared.portions) received += portion.bytes;
  }
  return {made, received};
}

TEST(SaveDivisionTest, ShortRunsGoToRanksThatHoldSomeOfThem) {
  const auto [made, received] = shares_of(division_of_pairs(40, 40));
  EXPECT_THAT(made, ElementsAre(2000, 2000, 2000, 2000));
  EXPECT_EQ(received, 4000) << "of each tile one half";
}

TEST(SaveDivisionTest, RanksThatHoldLittleWriteTheirShareToo) {
  const auto [made, received] = shares_of(division_of_pairs(400, 40));
  EXPECT_LT(std::ranges::max(made) - std::ranges::min(made), 44'000 / 4 / 8 + 2000);
  EXPECT_GT(received, 22'000);
}

TEST(SaveDivisionTest, BatchesBoundWhatARankMoves) {
  std::vector<SharedTile> tiles(4);
  for (SharedTile& tile : tiles) tile.portions = {{1, 40}, {2, 40}};  // 80 bytes to rank 0
  EXPECT_THAT(batches_of(tiles, 3, 160), ElementsAre(Pair(0, 2), Pair(2, 4)));
  EXPECT_THAT(batches_of(tiles, 3, 79),
              ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 4)));
  EXPECT_THAT(batches_of({}, 3, 79), ElementsAre());
}

TEST(SaveDivisionTest, EveryByteLiesInOneTileOfTheDivision) {
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << test_seed());
  std::mt19937_64 draw(test_seed());
  for (int trial = 0; trial < 50; ++trial) {
    const auto parts = static_cast<int64_t>(1 + draw() % 4);
    const auto run = static_cast<int64_t>(1 + draw() % (3 * static_cast<uint64_t>(kLongRunBytes)));
    const CopyProgram program = striped(static_cast<int64_t>(1 + draw() % 20), parts, run);
    const SaveDivision division = divide(program, tiles_of(program), one_each(parts), parts);
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const OwnTile& own : division.own) {
      ranges.emplace_back(own.tile.pieces.front().begin_bytes, own.tile.pieces.back().end_bytes);
    }
    for (const SharedTile& shared : division.shared) {
      ranges.emplace_back(shared.tile.pieces.front().begin_bytes,
                          shared.tile.pieces.back().end_bytes);
    }
    std::ranges::sort(ranges);
    int64_t end = 0;
    for (const auto& [begin, next] : ranges) {
      EXPECT_EQ(begin, end);
      end = next;
    }
    EXPECT_EQ(end, program.target_bytes());
  }
}

}  // namespace
}  // namespace weightloom::testing
