#include "weightloom/plan/schedule.h"

#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/codec/cast_reference.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/lower_internal.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

CopyProgram one_target(Layout layout, DType dtype, const Shape& source_shape) {
  const int64_t size = *checked_bytes(dtype, source_shape);
  ProgramTarget target{"t", dtype, layout.shape(), *checked_bytes(dtype, layout.shape()), {}, true};
  target.regions = lower_to_bytes(std::move(layout), dtype).regions;
  return CopyProgram({{"f", "f", {}}}, {{"a", dtype, source_shape, 0, 8, size}},
                     {std::move(target)});
}

std::vector<Placement> side_by_side(const CopyProgram& program) {
  std::vector<Placement> placements;
  int64_t end = 40;
  for (const ProgramTarget& target : program.targets()) {
    placements.push_back({0, end});
    end += target.size_bytes;
  }
  return placements;
}

using Offsets = std::vector<int64_t>;

/// All offsets of one side of a region, in lexicographic order of the axes.
Offsets offsets(const Region& region, int64_t first, int64_t Axis::* stride) {
  Offsets result{first};
  for (const Axis& axis : region.axes) {
    Offsets next;
    for (int64_t offset : result) {
      for (int64_t k = 0; k < axis.extent; ++k) next.push_back(offset + k * axis.*stride);
    }
    result = std::move(next);
  }
  return result;
}

/// Makes a tile one byte at a time, following what read_tile says.
class Follower {
 public:
  Follower(const testing::RandomProgram& random, const Tile& tile)
      : random_(random), memory_(static_cast<size_t>(tile.size_bytes), std::byte{0xee}) {}

  Bytes follow(const TileReads& reads) {
    for (const DirectRead& read : reads.direct) {
      copy_bytes(read.file, read.file_offset, memory_, read.tile_offset, read.size_bytes);
    }
    for (const StagedGroup& group : reads.staged) follow_group(group);
    for (const Region& fill : reads.fills) {
      for (int64_t to : offsets(fill, fill.target_offset, &Axis::target_stride)) {
        memory_.at(static_cast<size_t>(to)) = std::byte{0};
      }
    }
    return memory_;
  }

 private:
  void copy_bytes(int32_t file, int64_t from, Bytes& target, int64_t to, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
      target.at(static_cast<size_t>(to + i)) =
          random_.files.at(static_cast<size_t>(file)).at(static_cast<size_t>(from + i));
    }
  }

  void follow_group(const StagedGroup& group) {
    Bytes staging(static_cast<size_t>(group.staging_bytes));
    for (const StagingRead& read : group.reads) {
      copy_bytes(group.file, read.file_offset, staging, read.staging_offset, read.size_bytes);
    }
    for (const StagedCopy& copy : group.copies) {
      const Region& region = copy.region;
      const Offsets to = offsets(region, region.target_offset, &Axis::target_stride);
      const Offsets from = offsets(region, region.source_offset, &Axis::source_stride);
      for (size_t i = 0; i < to.size(); ++i) copy_point(copy.type, staging, from[i], to[i]);
    }
  }

  void copy_point(const RegionType& type, const Bytes& staging, int64_t from, int64_t to) {
    const auto source = std::span(staging).subspan(static_cast<size_t>(from),
                                                   static_cast<size_t>(type.source_bytes()));
    const auto target = std::span(memory_).subspan(static_cast<size_t>(to),
                                                   static_cast<size_t>(type.target_bytes()));
    if (type.casts()) {
      cast_reference(type.from, type.to, source.data(), target.data(), 1);
    } else {
      target[0] = source[0];
    }
  }

  const testing::RandomProgram& random_;
  Bytes memory_;
};

void expect_schedule_makes_targets(uint64_t seed, const ScheduleLimits& limits) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const testing::RandomProgram random = testing::random_program(seed, 9, "unused");
  const std::vector<Bytes> expected = random.expected();
  std::vector<Bytes> made;
  std::vector<std::vector<int>> times;
  for (const Bytes& bytes : expected) {
    made.emplace_back(bytes.size(), std::byte{0xee});
    times.emplace_back(bytes.size(), 0);
  }
  for (const Tile& tile : make_schedule(random.program, side_by_side(random.program), limits)) {
    const TileReads reads = read_tile(random.program, tile, limits);
    EXPECT_LE(tile.size_bytes + reads.staging_bytes, limits.worker_bytes);
    const Bytes memory = Follower(random, tile).follow(reads);
    for (const Piece& piece : tile.pieces) {
      for (int64_t i = piece.begin_bytes; i < piece.end_bytes; ++i) {
        const auto target = static_cast<size_t>(piece.target);
        made[target].at(static_cast<size_t>(i)) =
            memory.at(static_cast<size_t>(piece.at_bytes + i - piece.begin_bytes));
        ++times[target].at(static_cast<size_t>(i));
      }
    }
  }
  EXPECT_EQ(made, expected);
  for (const auto& counts : times) {
    for (int count : counts) EXPECT_EQ(count, 1);
  }
}

TEST(ScheduleTest, TilesMakeEachByteOnceAndEqualTheInterpreter) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    expect_schedule_makes_targets(seed, {4 * kMiB, 256 * kMiB});
  }
}

TEST(ScheduleTest, TinyTilesMakeTheSame) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    expect_schedule_makes_targets(seed, {.tile_bytes = 13, .worker_bytes = 64});
  }
}

TEST(ScheduleTest, LongRunsAreCutAtTheTileSizeAndReadStraight) {
  const CopyProgram program =
      one_target(identity(0, {5, 1024, 1024}), DType::BF16, {5, 1024, 1024});
  const ScheduleLimits limits{4 * kMiB, 64 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  ASSERT_EQ(tiles.size(), 3U);
  EXPECT_EQ(tiles[2].parts[0].begin_bytes, 8 * kMiB);
  EXPECT_EQ(tiles[2].size_bytes, 2 * kMiB);
  const TileReads reads = read_tile(program, tiles[1], limits);
  ASSERT_EQ(reads.direct.size(), 1U);
  EXPECT_EQ(reads.direct[0].file_offset, 8 + 4 * kMiB);
  EXPECT_EQ(reads.staging_bytes, 0);
}

TEST(ScheduleTest, SmallNeighboursShareATileAndOneRead) {
  std::vector<ProgramSource> sources;
  std::vector<ProgramTarget> targets;
  for (int32_t i = 0; i < 8; ++i) {
    sources.push_back({"s", DType::U8, {100}, 0, 8 + 100 * i, 100});
    targets.push_back({"t", DType::U8, {100}, 100, {{i, 0, 0, 0, {{100, 1, 1}}}}, true});
  }
  const CopyProgram program({{"f", "f", {}}}, sources, targets);
  const ScheduleLimits limits;
  const std::vector<Tile> tiles = make_schedule(program, side_by_side(program), limits);
  ASSERT_EQ(tiles.size(), 1U);
  EXPECT_EQ(tiles[0].size_bytes, 800);
  EXPECT_EQ(read_tile(program, tiles[0], limits).read_calls, 1);
}

TEST(ScheduleTest, ATransposeThatFitsIsReadInOneSweep) {
  const CopyProgram program =
      one_target(transpose(identity(0, {1024, 4096}), 0, 1), DType::BF16, {1024, 4096});
  const ScheduleLimits limits{kMiB, 64 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  const Cost cost = cost_of(program, tiles, limits, 1);
  EXPECT_EQ(cost.bytes_read, cost.bytes_needed);
  EXPECT_LE(tiles.size(), 2U);
  EXPECT_LE(cost.working_memory_bytes, 64 * kMiB);
}

TEST(ScheduleTest, ATransposeLargerThanTheBudgetReadsEachByteOnceInTiles) {
  const CopyProgram program =
      one_target(transpose(identity(0, {4096, 4096}), 0, 1), DType::BF16, {4096, 4096});
  const ScheduleLimits limits{kMiB, 4 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  EXPECT_GE(tiles.size(), 16U);
  const Cost cost = cost_of(program, tiles, limits, 2);
  EXPECT_EQ(cost.bytes_read, cost.bytes_needed);
  EXPECT_LE(cost.working_memory_bytes, 8 * kMiB);
}

TEST(ScheduleTest, AmplificationIsStatedWhereOneSweepIsCheaperThanManyReads) {
  // Every second element: the sweep reads twice what is needed, single reads would be far slower.
  const Layout pairs = reshape(identity(0, {1 << 20}), {1 << 19, 2});
  const CopyProgram program = one_target(slice(pairs, 1, 0, 1), DType::U8, {1 << 20});
  const ScheduleLimits limits{kMiB, 64 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const Cost cost = cost_of(program, make_schedule(program, placements, limits), limits, 1);
  EXPECT_EQ(cost.bytes_needed, 1 << 19);
  EXPECT_EQ(cost.bytes_read, (1 << 20) - 2) << "two sweeps, each to its last even byte";
  EXPECT_EQ(cost.target_bytes_read, std::vector<int64_t>{(1 << 20) - 2});
  EXPECT_NEAR(cost.amplification(), 2.0, 0.001);
}

TEST(ScheduleTest, RowsOfAColumnConcatArePlacedByOneReadOfEachSource) {
  std::vector<ProgramSource> sources;
  for (int32_t i = 0; i < 2; ++i) {
    sources.push_back({"s", DType::F32, {64, 256}, 0, 8 + 65536 * i, 65536});
  }
  const std::vector<Layout> parts{identity(0, {64, 256}), identity(1, {64, 256})};
  ProgramTarget target{"t", DType::F32, {64, 512}, 131072, {}, false};
  target.regions = lower_to_bytes(concat(parts, 1), DType::F32).regions;
  const CopyProgram program({{"f", "f", {}}}, sources, {target});
  const ScheduleLimits limits;
  const std::vector<Placement> placements{{0, 0}};
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  ASSERT_EQ(tiles.size(), 1U);
  const TileReads reads = read_tile(program, tiles[0], limits);
  EXPECT_EQ(reads.bytes_read, 131072);
  EXPECT_EQ(reads.read_calls, 1) << "the two sources lie side by side in the file";
}

/// A target of `dtype` that is `layout` over one source of another dtype.
CopyProgram one_cast(const Layout& layout, DType dtype, DType from, const Shape& source_shape) {
  ProgramTarget target{"t",  dtype, layout.shape(), *checked_bytes(dtype, layout.shape()), {},
                       true, true};
  target.regions = lower_to_bytes(layout, dtype, [from](SourceId) { return from; }).regions;
  return CopyProgram({{"f", "f", {}}},
                     {{"a", from, source_shape, 0, 8, *checked_bytes(from, source_shape)}},
                     {std::move(target)});
}

TEST(ScheduleTest, ACastIsCutBetweenElementsWhereverItLies) {
  const CopyProgram program = one_cast(identity(0, {5000}), DType::F32, DType::BF16, {5000});
  const ScheduleLimits limits{.tile_bytes = 8192, .worker_bytes = 1 << 20};
  const std::vector<Placement> placements{{0, 4093}};  // so that pages end inside elements
  int64_t end = 0;
  for (const Tile& tile : make_schedule(program, placements, limits)) {
    ASSERT_EQ(tile.pieces.size(), 1U);
    EXPECT_EQ(tile.pieces[0].begin_bytes, end);
    end = tile.pieces[0].end_bytes;
    EXPECT_EQ(end % 4, 0);
  }
  EXPECT_EQ(end, 20000);
}

TEST(ScheduleTest, ACastIsStagedOnceInSourceBytesWithinTheBudget) {
  const CopyProgram program = one_cast(identity(0, {1 << 20}), DType::F16, DType::F64, {1 << 20});
  const ScheduleLimits limits{.tile_bytes = kMiB, .worker_bytes = 2 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const std::vector<Tile> tiles = make_schedule(program, placements, limits);
  ASSERT_EQ(tiles.size(), 2U);
  const TileReads reads = read_tile(program, tiles[0], limits);
  EXPECT_TRUE(reads.direct.empty());
  EXPECT_EQ(reads.staged.size(), 8U) << "4 MiB of F64, half a MiB at once";
  EXPECT_EQ(reads.staging_bytes, kMiB / 2);
  EXPECT_EQ(reads.bytes_read, 4 * kMiB);
  const Cost cost = cost_of(program, tiles, limits, 1);
  EXPECT_EQ(cost.bytes_needed, 8 * kMiB);
  EXPECT_EQ(cost.bytes_read, 8 * kMiB);
  EXPECT_EQ(cost.bytes_written, 2 * kMiB);
  EXPECT_EQ(cost.working_memory_bytes, kMiB + kMiB / 2);
}

TEST(ScheduleTest, ATransposeThatCastsReadsEachByteOnce) {
  const Layout layout = transpose(identity(0, {2048, 4096}), 0, 1);
  const CopyProgram program = one_cast(layout, DType::BF16, DType::F32, {2048, 4096});
  const ScheduleLimits limits{kMiB, 16 * kMiB};
  const std::vector<Placement> placements{{0, 0}};
  const Cost cost = cost_of(program, make_schedule(program, placements, limits), limits, 1);
  EXPECT_EQ(cost.bytes_needed, 4 * 2048 * 4096);
  EXPECT_EQ(cost.bytes_read, cost.bytes_needed);
  EXPECT_LE(cost.working_memory_bytes, 16 * kMiB);
}

TEST(ScheduleTest, ABudgetTooSmallForTheThreadsIsRefusedWithNumbers) {
  try {
    limits_for(kMiB, 4);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find("4 threads"), std::string::npos);
  }
  EXPECT_EQ(limits_for(64 * kMiB, 4).worker_bytes, 16 * kMiB - 4096) << "less a page to begin in";
}

}  // namespace
}  // namespace weightloom
