#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/family_cut_internal.h"
#include "weightloom/plan/lower_internal.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr ScheduleLimits kDefault{};

/// One source, and the members of one family that are made of it.
struct Family {
  CopyProgram program;
  std::vector<Placement> placements;  // each in a space of its own, at odd places
};

Family family_of(const Shape& shape, DType from, DType to, std::vector<Layout> members) {
  const int64_t source_bytes = *checked_bytes(from, shape);
  std::vector<ProgramTarget> targets;
  std::vector<Placement> placements;
  for (Layout& layout : members) {
    const int64_t size = *checked_bytes(to, layout.shape());
    ProgramTarget target{"t", to, layout.shape(), size, {}, true, from != to, 7};
    target.regions = lower_to_bytes(std::move(layout), to, [&](SourceId) { return from; }).regions;
    const auto space = static_cast<int32_t>(targets.size());
    placements.push_back({space, 1000 + 104 * space});
    targets.push_back(std::move(target));
  }
  return {CopyProgram({{"f", "f", {}}}, {{"a", from, shape, 0, 8, source_bytes}}, targets),
          placements};
}

/// Cut along `dim` behind each of `sizes` elements.
std::vector<Layout> cut(const Shape& shape, int dim, const std::vector<int64_t>& sizes) {
  std::vector<Layout> members;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    members.push_back(slice(identity(0, shape), dim, begin, begin + size));
    begin += size;
  }
  return members;
}

Family bf16(const Shape& shape, int dim, const std::vector<int64_t>& sizes) {
  return family_of(shape, DType::BF16, DType::BF16, cut(shape, dim, sizes));
}

int64_t bytes_read(const Family& family, const ScheduleLimits& limits) {
  return cost_of(family.program, family.placements, limits, 1).bytes_read;
}

TEST(FamilyCutTest, PartsOfEveryRowAreMadeByTilesThatReadEachByteOnce) {
  for (const int64_t columns : {64, 256, 512, 2048, 8192}) {  // runs of 128 bytes to 16 KiB
    const Family family = bf16({3000, 4 * columns}, 1, {columns, columns, columns, columns});
    const int64_t source_bytes = family.program.sources()[0].size_bytes;
    int64_t made = 0;
    for (const Tile& tile : make_schedule(family.program, family.placements, kDefault)) {
      EXPECT_EQ(tile.parts.size(), 4U);
      EXPECT_LE(tile.size_bytes, kDefault.tile_bytes);
      made += tile.made_bytes();
    }
    EXPECT_EQ(made, source_bytes);
    EXPECT_EQ(bytes_read(family, kDefault), source_bytes) << columns;
  }
}

TEST(FamilyCutTest, PiecesOfATileAreTheSameRowsOfEachMember) {
  const Family family = bf16({10, 16}, 1, {8, 4, 3, 1});
  // A tile has room for three rows of 32 bytes.
  const auto tiles = make_schedule(family.program, family.placements, {100, 200});
  ASSERT_EQ(tiles.size(), 4U);
  const std::vector<int64_t> rows{0, 2, 5, 7, 10};
  for (size_t i = 0; i < tiles.size(); ++i) {
    ASSERT_EQ(tiles[i].pieces.size(), 4U);
    const std::vector<int64_t> row_bytes{16, 8, 6, 2};
    int64_t at = 0;
    for (size_t member = 0; member < 4; ++member) {
      const Piece& piece = tiles[i].pieces[member];
      const TilePart& part = tiles[i].parts[member];
      EXPECT_EQ(piece.target, static_cast<int32_t>(member));
      EXPECT_EQ(piece.begin_bytes, rows[i] * row_bytes[member]);
      EXPECT_EQ(piece.end_bytes, rows[i + 1] * row_bytes[member]);
      EXPECT_EQ(piece.at_bytes, at);
      EXPECT_EQ(part.space, static_cast<int32_t>(member));
      EXPECT_EQ(part.begin_bytes,
                family.placements[member].offset_bytes + rows[i] * row_bytes[member]);
      EXPECT_EQ(part.size_bytes, piece.end_bytes - piece.begin_bytes);
      EXPECT_EQ(part.at_bytes, at);
      at += part.size_bytes;
    }
  }
}

TEST(FamilyCutTest, PartsLieInTheirPagesAsInThoseOfTheirSpaces) {
  const Family family = bf16({3000, 1024}, 1, {400, 400, 223, 1});
  for (const Tile& tile : make_schedule(family.program, family.placements, kDefault)) {
    const TilePart& first = tile.parts.front();
    EXPECT_EQ(first.at_bytes, 0);
    for (const TilePart& part : tile.parts) {
      EXPECT_EQ((first.begin_bytes + part.at_bytes) % 4096, part.begin_bytes % 4096);
    }
    EXPECT_EQ(tile.size_bytes, tile.parts.back().at_bytes + tile.parts.back().size_bytes);
  }
}

TEST(FamilyCutTest, LongRunsAndShortOnesOfTheSameRowsAreReadOnce) {
  const Family family = bf16({2000, 2048}, 1, {640, 640, 640, 128});  // 1280 bytes, 256 bytes
  EXPECT_EQ(bytes_read(family, kDefault), family.program.sources()[0].size_bytes);
}

TEST(FamilyCutTest, CopiesOfATensorAreReadOnce) {
  const Shape shape{300, 100'000};
  const Family family = family_of(shape, DType::BF16, DType::BF16,
                                  {identity(0, shape), identity(0, shape), identity(0, shape)});
  const int64_t source_bytes = family.program.sources()[0].size_bytes;
  const Cost cost = cost_of(family.program, family.placements, kDefault, 1);
  EXPECT_EQ(cost.bytes_read, source_bytes);
  EXPECT_EQ(cost.bytes_needed, 3 * source_bytes);
  EXPECT_EQ(cost.target_bytes_read, std::vector<int64_t>(3, source_bytes / 3));
}

TEST(FamilyCutTest, AFewSmallRowsOfManyDimsAreCutFurtherIn) {
  const Family family = bf16({2, 40'000, 64}, 2, {32, 32});
  EXPECT_EQ(bytes_read(family, kDefault), family.program.sources()[0].size_bytes);
  EXPECT_EQ(make_schedule(family.program, family.placements, kDefault).size(), 3U)
      << "10.24 MB in tiles of 4 MiB, though a step of dim 0 is 5.12 MB";
}

TEST(FamilyCutTest, TilesAndStagingStayWithinTheBudget) {
  for (const auto& [from, to] :
       {std::pair(DType::BF16, DType::BF16), std::pair(DType::F64, DType::BF16),
        std::pair(DType::BF16, DType::F32)}) {
    const Shape shape{4000, 1024};
    const Family family = family_of(shape, from, to, cut(shape, 1, {256, 256, 256, 256}));
    const ScheduleLimits limits{.tile_bytes = kMiB, .worker_bytes = 2 * kMiB};
    for (const Tile& tile : make_schedule(family.program, family.placements, limits)) {
      const TileReads reads = read_tile(family.program, tile, limits);
      EXPECT_LE(tile.size_bytes + reads.staging_bytes, limits.worker_bytes);
    }
    EXPECT_EQ(bytes_read(family, limits), family.program.sources()[0].size_bytes);
  }
}

TEST(FamilyCutTest, MembersWhoseRunsAreAllLongAreCutEachByItself) {
  const Family family = bf16({4, 65536}, 1, {32768, 32768});
  for (const Tile& tile : make_schedule(family.program, family.placements, kDefault)) {
    EXPECT_EQ(tile.parts.size(), 1U);
    EXPECT_TRUE(tile.long_runs);
  }
}

TEST(FamilyCutTest, MembersAreCutEachByItselfOnRequest) {
  const Family family = bf16({300, 2048}, 1, {512, 512, 512, 512});
  ScheduleLimits limits;
  limits.families_apart = true;
  const auto tiles = make_schedule(family.program, family.placements, limits);
  EXPECT_EQ(tiles.size(), 4U);
  for (const Tile& tile : tiles) EXPECT_EQ(tile.parts.size(), 1U);
}

TEST(FamilyCutTest, MembersOfWhichNotOneElementEachFitsAreCutEachByItself) {
  const Family family = bf16({5, 6}, 1, {2, 2, 2});
  const ScheduleLimits limits{.tile_bytes = 2, .worker_bytes = 16};
  const std::vector<Tile> fit = make_schedule(family.program, family.placements, {6, 16});
  EXPECT_EQ(fit.front().parts.size(), 3U);
  const std::vector<FamilyMember> members{{0, {0, 0}}, {1, {1, 0}}, {2, {2, 0}}};
  EXPECT_FALSE(FamilyCut::make(family.program, members, 5));
  int64_t made = 0;
  for (const Tile& tile : make_schedule(family.program, family.placements, limits)) {
    made += tile.made_bytes();
  }
  EXPECT_EQ(made, 60);
}

TEST(FamilyCutTest, AFamilyOfOneIsCutLikeAnyTarget) {
  const Family family = bf16({5000, 1024}, 1, {1024});
  EXPECT_TRUE(make_schedule(family.program, family.placements, kDefault).front().long_runs);
}

TEST(FamilyCutTest, TilesStandWhereTheFirstMemberDoesAndNoneReachesAcrossAMember) {
  std::vector<ProgramTarget> targets;
  std::vector<Placement> placements;
  const std::vector<Region> halves[] = {{{0, 0, 0, 0, {{8, 2, 4}, {2, 1, 1}}}},
                                        {{0, 0, 2, 0, {{8, 2, 4}, {2, 1, 1}}}}};
  for (int32_t space : {0, 1}) {
    targets.push_back({"first", DType::U8, {32}, 32, {{0, 0, 0, 0, {{32, 1, 1}}}}});
    targets.push_back({"part", DType::U8, {8, 2}, 16, halves[space], true, false, 3});
    targets.push_back({"last", DType::U8, {32}, 32, {{0, 0, 0, 0, {{32, 1, 1}}}}});
    for (const int64_t offset : {0, 32, 48}) placements.push_back({space, offset});
  }
  const CopyProgram program({{"f", "f", {}}}, {{"a", DType::U8, {32}, 0, 8, 32}}, targets);
  std::vector<std::vector<int32_t>> made;
  for (const Tile& tile : make_schedule(program, placements, kDefault)) {
    made.emplace_back();
    for (const Piece& piece : tile.pieces) made.back().push_back(piece.target);
  }
  EXPECT_EQ(made, (std::vector<std::vector<int32_t>>{{0}, {1, 4}, {2}, {3}, {5}}));
}

TEST(FamilyCutTest, RandomProgramsHaveFamiliesInOneTile) {
  std::set<size_t> parts;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const testing::RandomProgram random = testing::random_program(seed, 9, "unused");
    std::vector<Placement> placements;
    for (size_t i = 0; i < random.program.targets().size(); ++i) {
      placements.push_back({static_cast<int32_t>(i), 0});
    }
    for (const Tile& tile : make_schedule(random.program, placements, {64, 512})) {
      parts.insert(tile.parts.size());
    }
  }
  EXPECT_EQ(parts, (std::set<size_t>{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace weightloom
