#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/random_program_testing.h"
#include "weightloom/plan/tile_shift_internal.h"

namespace weightloom::testing {
namespace {

constexpr ScheduleLimits kTiny{.tile_bytes = 32, .worker_bytes = 200};

/// What all tiles read, each by itself, and the memory of the largest two.
Cost cost_of_each(const CopyProgram& program, const std::vector<Tile>& tiles) {
  Cost cost;
  std::vector<int64_t> memory = {0, 0};
  for (const Tile& tile : tiles) {
    const TileReads reads = read_tile(program, tile, kTiny);
    cost.bytes_read += tile.long_runs ? reads.bytes_needed : reads.bytes_read;
    memory.push_back(tile.size_bytes + (tile.long_runs ? 0 : reads.staging_bytes));
  }
  std::ranges::sort(memory, std::greater<>());
  cost.working_memory_bytes = memory[0] + memory[1];
  return cost;
}

/// Checks the law on all pairs of tiles; gives how many are shifted.
int64_t shifted_pairs(const CopyProgram& program, const std::vector<Tile>& tiles) {
  int64_t shifted = 0;
  for (size_t i = 1; i < tiles.size(); ++i) {
    for (size_t j = i < 6 ? 0 : i - 6; j < i; ++j) {
      if (!is_shifted(program, tiles[j], tiles[i])) continue;
      const TileReads a = read_tile(program, tiles[j], kTiny);
      const TileReads b = read_tile(program, tiles[i], kTiny);
      EXPECT_EQ(a.bytes_read, b.bytes_read);
      EXPECT_EQ(a.bytes_needed, b.bytes_needed);
      EXPECT_EQ(a.staging_bytes, b.staging_bytes);
      EXPECT_EQ(a.read_calls, b.read_calls);
      ++shifted;
    }
  }
  return shifted;
}

TEST(TileShiftTest, ShiftedTilesAreReadAlike) {
  int64_t shifted = 0;
  for (uint64_t seed = test_seed(); seed < test_seed() + 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const RandomProgram random = random_program(seed, 12, "nowhere");
    const Spread spread = random_spread(seed, random.program);
    std::vector<int64_t> all(static_cast<size_t>(spread.meshes.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    const CopyProgram parts = program_of_ranks(random.program, spread, all).program;
    for (const CopyProgram* program : {&random.program, &parts}) {
      const auto tiles = make_schedule(*program, one_after_another(*program), kTiny);
      shifted += shifted_pairs(*program, tiles);
      const Cost direct = cost_of_each(*program, tiles);
      const Cost cost = cost_of(*program, tiles, kTiny, 2);
      EXPECT_EQ(cost.bytes_read, direct.bytes_read);
      EXPECT_EQ(cost.working_memory_bytes, direct.working_memory_bytes);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(shifted, 1000);
}

/// Columns [0, 2) of a tensor of 8 rows of 4 bytes.
CopyProgram columns() {
  return CopyProgram({{"f", "f", {}}}, {{"a", DType::U8, {8, 4}, 0, 0, 32}},
                     {{"a", DType::U8, {8, 2}, 16, {{0, 0, 0, 0, {{8, 2, 4}, {2, 1, 1}}}}, true}});
}

Tile tile_of(int64_t begin, int64_t end) {
  return {{{0, begin, end - begin, 0}}, end - begin, {{0, begin, end, 0}}, false};
}

TEST(TileShiftTest, OnlyWholeStepsAreAShift) {
  const CopyProgram program = columns();
  EXPECT_TRUE(is_shifted(program, tile_of(0, 4), tile_of(4, 8)));
  EXPECT_TRUE(is_shifted(program, tile_of(12, 16), tile_of(2, 6)));
  EXPECT_TRUE(is_shifted(program, tile_of(1, 5), tile_of(3, 7)));
  EXPECT_FALSE(is_shifted(program, tile_of(0, 4), tile_of(1, 5)));
  EXPECT_FALSE(is_shifted(program, tile_of(0, 4), tile_of(4, 10)));
}

}  // namespace
}  // namespace weightloom::testing
