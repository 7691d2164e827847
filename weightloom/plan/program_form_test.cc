#include "weightloom/plan/program_form.h"

#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom::testing {
namespace {

constexpr ScheduleLimits kTiny{.tile_bytes = 64, .worker_bytes = 400};

void expect_equal(const Cost& a, const Cost& b) {
  EXPECT_EQ(a.bytes_needed, b.bytes_needed);
  EXPECT_EQ(a.bytes_read, b.bytes_read);
  EXPECT_EQ(a.bytes_written, b.bytes_written);
  EXPECT_EQ(a.regions, b.regions);
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.tiles, b.tiles);
  EXPECT_EQ(a.working_memory_bytes, b.working_memory_bytes);
  EXPECT_EQ(a.target_bytes_read, b.target_bytes_read);
}

void expect_direct_cost(CostCounter& costs, const CopyProgram& program,
                        const ScheduleLimits& limits) {
  const std::vector<Placement> placements = one_after_another(program);
  expect_equal(costs.cost_of(program, placements), cost_of(program, placements, limits, 2));
}

using MakeProgram = RandomProgram (*)(uint64_t, int64_t, const std::string&);

/// The whole and what each rank makes of random programs; room is what their blocks take.
void expect_costs_by_form(MakeProgram make, const ScheduleLimits& limits) {
  CostCounter costs(limits, 2);
  size_t programs = 0;
  for (uint64_t seed = test_seed(); seed < test_seed() + 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const RandomProgram random = make(seed, 9, "nowhere");
    const Spread spread = random_spread(seed, random.program);
    std::vector<int64_t> all(static_cast<size_t>(spread.meshes.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    for (const int64_t& rank : all) {
      expect_direct_cost(costs, program_of_ranks(random.program, spread, {&rank, 1}).program,
                         limits);
    }
    expect_direct_cost(costs, program_of_ranks(random.program, spread, all).program, limits);
    programs += all.size() + 1;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_LT(costs.forms(), programs * 9 / 10);
}

TEST(ProgramFormTest, WhatIsCountedOncePerFormIsWhatIsCountedDirectly) {
  expect_costs_by_form(random_program, kTiny);
}

TEST(ProgramFormTest, SoItIsWhereNodesCompute) {
  expect_costs_by_form(random_program_with_nodes, {.tile_bytes = 256, .worker_bytes = 16384});
}

/// The files in reverse order, and of each file everything behind a gap further on.
CopyProgram moved(const CopyProgram& program) {
  std::vector<ProgramFile> files(program.files().begin(), program.files().end());
  std::vector<ProgramSource> sources(program.sources().begin(), program.sources().end());
  std::vector<int64_t> ends(files.size());
  std::vector<int64_t> shifts(files.size());
  for (ProgramSource& source : sources) {  // they are in order
    const auto file = static_cast<size_t>(source.file);
    if (source.offset_bytes > ends[file]) shifts[file] += 5;
    ends[file] = source.offset_bytes + source.size_bytes;
    source.offset_bytes += shifts[file];
    source.file = static_cast<int32_t>(files.size() - 1 - file);
  }
  return CopyProgram(std::move(files), std::move(sources),
                     {program.targets().begin(), program.targets().end()});
}

void expect_equal_tiles(const CopyProgram& a, const CopyProgram& b) {
  const std::vector<Placement> placements = one_after_another(a);
  const std::vector<Tile> tiles = make_schedule(a, placements, kTiny);
  const std::vector<Tile> others = make_schedule(b, placements, kTiny);
  ASSERT_EQ(tiles.size(), others.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    ASSERT_EQ(tiles[i].size_bytes, others[i].size_bytes);
    const TileReads reads = read_tile(a, tiles[i], kTiny);
    const TileReads other = read_tile(b, others[i], kTiny);
    ASSERT_EQ(reads.bytes_read, other.bytes_read);
    ASSERT_EQ(reads.read_calls, other.read_calls);
    ASSERT_EQ(reads.staging_bytes, other.staging_bytes);
  }
}

TEST(ProgramFormTest, SourcesThatStandFurtherApartAreReadInEqualTiles) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const CopyProgram here = random_program(seed, 9, "nowhere").program;
    const CopyProgram there = moved(here);
    const std::vector<Placement> placements = one_after_another(here);
    ASSERT_EQ(form_of(here, placements), form_of(there, placements));
    expect_equal_tiles(here, there);
    if (HasFatalFailure()) return;
  }
}

/// Two targets of 4 bytes, each a source of its own in one file.
CopyProgram two_sources(int64_t first_offset, int64_t second_offset) {
  const auto target = [](SourceId source) {
    return ProgramTarget{"t", DType::U8, {4}, 4, {{source, 0, 0, 0, {{4, 1, 1}}}}, true};
  };
  return CopyProgram(
      {{"f", "f", {}}},
      {{"a", DType::U8, {4}, 0, first_offset, 4}, {"b", DType::U8, {4}, 0, second_offset, 4}},
      {target(0), target(1)});
}

ProgramForm form_of_two(int64_t first_offset, int64_t second_offset) {
  const CopyProgram program = two_sources(first_offset, second_offset);
  return form_of(program, one_after_another(program));
}

TEST(ProgramFormTest, WhetherSourcesTouchIsInTheForm) {
  EXPECT_EQ(form_of_two(8, 12), form_of_two(100, 104));
  EXPECT_NE(form_of_two(8, 12), form_of_two(8, 13));
  EXPECT_EQ(form_of_two(8, 13), form_of_two(900, 8));
  EXPECT_NE(form_of_two(8, 12), form_of_two(12, 8));  // which of them comes first
}

/// Codes [4, 4] with scales in blocks of 2 rows, or one for all: rows [begin, begin + 1) decoded.
ProgramForm form_of_decoded(int64_t begin, int64_t block_rows) {
  const int64_t blocks = block_rows == kEntireDim ? 1 : 4 / block_rows;
  const auto input = [](SourceId source, DType dtype, Shape shape, int64_t bytes) {
    return ProgramTarget{"i", dtype, std::move(shape), bytes, {{source, 0, 0, 0, {{bytes, 1, 1}}}}};
  };
  ProgramNode node{{.block_rows = block_rows, .block_cols = kEntireDim}, false, {4, 4}, {}};
  node.inputs = {input(0, DType::F8_E4M3, {4, 4}, 16),
                 input(1, DType::F32, {blocks, 1}, 4 * blocks)};
  const CopyProgram program({{"f", "f", {}}},
                            {{"w", DType::F8_E4M3, {4, 4}, 0, 0, 16},
                             {"s", DType::F32, {blocks, 1}, 0, 16, 4 * blocks},
                             {"w", DType::F32, {4, 4}, -1, 0, 64, 0}},
                            {{"w", DType::F32, {1, 4}, 16, {{2, 0, 16 * begin, 0, {{16, 1, 1}}}}}},
                            {node});
  return form_of(program, one_after_another(program));
}

TEST(ProgramFormTest, WhereBlocksBeginAndHowLargeTheyAreIsInTheForm) {
  EXPECT_EQ(form_of_decoded(1, 2), form_of_decoded(1, 2));
  EXPECT_NE(form_of_decoded(1, 2), form_of_decoded(2, 2));
  EXPECT_NE(form_of_decoded(1, 2), form_of_decoded(1, 1));
  EXPECT_NE(form_of_decoded(1, 2), form_of_decoded(1, kEntireDim));
}

TEST(ProgramFormTest, PlacesAreInTheForm) {
  const CopyProgram program = two_sources(8, 12);
  const std::vector<Placement> apart = {{0, 0}, {1, 0}};
  EXPECT_NE(form_of(program, apart), form_of(program, one_after_another(program)));
}

TEST(ProgramFormTest, RanksThatHoldEqualPartsAreOfOneForm) {
  const CopyProgram program = two_sources(8, 20);
  const CutStep rows{"fsdp", 0};
  const Spread spread{MeshSet::parse("fsdp=4"), {{.steps = {rows}}, {.steps = {rows}}}};
  CostCounter costs(kTiny, 1);
  for (const int64_t rank : {0, 1, 2, 3}) {
    const CopyProgram mine = program_of_ranks(program, spread, {&rank, 1}).program;
    EXPECT_EQ(costs.cost_of(mine, one_after_another(mine)).bytes_read, 2);
  }
  EXPECT_EQ(costs.forms(), 1U);
}

}  // namespace
}  // namespace weightloom::testing
