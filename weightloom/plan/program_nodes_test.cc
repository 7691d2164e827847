// Programs that decode and encode: what is found, what is read, how they are cut.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/operations.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/dump.h"
#include "weightloom/plan/family_cut_internal.h"
#include "weightloom/plan/random_program_testing.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ScheduleLimits kDefault{};

BlockCodec fp8(int64_t rows, int64_t cols) {
  BlockCodec codec;
  codec.block_rows = rows;
  codec.block_cols = cols;
  return codec;
}

std::vector<std::string> codes(const Compiled& compiled) {
  std::vector<std::string> result;
  for (const Finding& finding : compiled.findings) {
    result.push_back(finding.code + " " + finding.tensor);
  }
  return result;
}

/// Codes [4, 6] and scales [2, 2] in blocks of 2 × 4, and the targets that take what they decode
/// to, which is source 2. `more` are sources that no node takes.
Compiled decoded(std::vector<NamedLayout> targets, const std::vector<ProgramSource>& more = {}) {
  std::vector<ProgramSource> sources = {{"w", DType::F8_E4M3, {4, 6}, 0, 100, 24},
                                        {"s", DType::F32, {2, 2}, 0, 124, 16},
                                        {"w", DType::F32, {4, 6}, -1, 0, 96, 0}};
  sources.insert(sources.end(), more.begin(), more.end());
  NodeLayouts node{fp8(2, 4), false, {4, 6}, {}};
  node.inputs.push_back({"w", DType::F8_E4M3, identity(0, {4, 6})});
  node.inputs.push_back({"s", DType::F32, identity(1, {2, 2})});
  const auto any = [](const std::string&) { return true; };
  std::vector<NodeLayouts> nodes;
  nodes.push_back(std::move(node));
  return compile({{"f", "f", {}}}, std::move(sources), std::move(targets), any, std::nullopt,
                 std::move(nodes));
}

Layout values() { return identity(2, {4, 6}); }

TEST(ProgramNodesTest, WhatIsDecodedIsCastToItsTarget) {
  const Compiled compiled = decoded({{"w", DType::BF16, values()}});
  EXPECT_THAT(compiled.findings, IsEmpty());
  EXPECT_EQ(dump(compiled.program),
            "source 0 'w' F8_E4M3 [4, 6] file 0 'f' [100, 124)\n"
            "source 1 's' F32 [2, 2] file 0 'f' [124, 140)\n"
            "source 2 'w' F32 [4, 6] node 0 result 0\n"
            "node 0 decode [4, 6] fp8 F8_E4M3 scales F32 blocks 2x4\n"
            "  input 'w' F8_E4M3 [4, 6]\n"
            "  0<-s0+0 (24:1<-1)\n"
            "  input 's' F32 [2, 2]\n"
            "  0<-s1+0 (16:1<-1)\n"
            "target 'w' BF16 [4, 6]\n"
            "  0<-s2+0 (24:2<-4) cast F32\n");
  EXPECT_EQ(compiled.program.targets()[0].needed_bytes, 24 + 16);
}

TEST(ProgramNodesTest, AnElementThatIsDecodedGoesToOneTarget) {
  const Layout top = slice(values(), 0, 0, 3);
  EXPECT_THAT(codes(decoded({{"a", DType::F32, top}})), ElementsAre("source_not_used w"));
  EXPECT_THAT(codes(decoded({{"a", DType::F32, values()}, {"b", DType::F32, top}})),
              ElementsAre("source_used_twice w"));
}

/// Such as a shape, or the scale of activations, that the planner knows to be left out.
TEST(ProgramNodesTest, ASourceThatIsLeftOutTakesNoTargetAlong) {
  const Compiled compiled =
      decoded({{"w", DType::BF16, values()}}, {{"left", DType::I64, {2}, 0, 140, 16}});
  EXPECT_THAT(codes(compiled), ElementsAre("source_not_used left"));
  EXPECT_EQ(compiled.findings[0].severity, Severity::strict);
  ASSERT_EQ(compiled.program.targets().size(), 1);
  EXPECT_EQ(compiled.program.targets()[0].needed_bytes, 24 + 16);
}

TEST(ProgramNodesTest, ARankNeedsTheCodesOfItsPartAndTheScalesOfItsBlocks) {
  const Compiled compiled = decoded({{"w", DType::BF16, values()}});
  Spread spread{MeshSet::parse("tp=2"), {{"", {CutStep{"tp", 1}}}}};
  const std::vector<int64_t> ranks{0, 1};
  const CopyProgram both = program_of_ranks(compiled.program, spread, ranks).program;
  // Columns 0 to 2 lie in one block, 3 to 5 in two; each of two rows of blocks.
  EXPECT_EQ(both.targets()[0].needed_bytes, 12 + 2 * 4);
  EXPECT_EQ(both.targets()[1].needed_bytes, 12 + 4 * 4);
}

TEST(ProgramNodesTest, WhatIsTooLargeAtOnceIsDividedBetweenRows) {
  std::vector<ProgramSource> sources = {{"w", DType::F8_E4M3, {9, 64}, 0, 100, 576},
                                        {"s", DType::F32, {1, 1}, 0, 676, 4},
                                        {"w", DType::F32, {9, 64}, -1, 0, 2304, 0}};
  std::vector<NodeLayouts> nodes(1);
  nodes[0] = {fp8(kEntireDim, kEntireDim), false, {9, 64}, {}};
  nodes[0].inputs.push_back({"w", DType::F8_E4M3, identity(0, {9, 64})});
  nodes[0].inputs.push_back({"s", DType::F32, identity(1, {1, 1})});
  const auto any = [](const std::string&) { return true; };
  const CopyProgram program =
      compile({{"f", "f", {}}}, std::move(sources), {{"w", DType::BF16, identity(2, {9, 64})}}, any,
              std::nullopt, std::move(nodes))
          .program;
  // Half of the columns would be fewer values than 5 of 9 rows, but would read all rows twice.
  const Tile all{{{0, 0, 1152, 0}}, 1152, {{0, 0, 1152, 0}}, false};
  const TileReads reads =
      read_tile(program, all, {.tile_bytes = 1152, .worker_bytes = 1152 + 1400});
  EXPECT_EQ(reads.bytes_read, 576 + 2 * 4);
}

/// Values [rows, 4] in BF16, and codes and scales of them in blocks of 2 × 4.
CopyProgram encoded(int64_t rows) {
  const int64_t blocks = (rows + 1) / 2;
  std::vector<ProgramSource> sources = {{"v", DType::BF16, {rows, 4}, 0, 0, rows * 8},
                                        {"c", DType::F8_E4M3, {rows, 4}, -1, 0, rows * 4, 0, 0},
                                        {"s", DType::F32, {blocks, 1}, -1, 0, blocks * 4, 0, 1}};
  std::vector<NodeLayouts> nodes(1);
  nodes[0] = {fp8(2, 4), true, {rows, 4}, {}};
  nodes[0].inputs.push_back({"v", DType::F32, identity(0, {rows, 4})});
  Compiled compiled = compile(
      {{"f", "f", {}}}, std::move(sources),
      {{"c", DType::F8_E4M3, identity(1, {rows, 4})}, {"s", DType::F32, identity(2, {blocks, 1})}},
      {}, std::nullopt, std::move(nodes));
  EXPECT_THAT(compiled.findings, IsEmpty());
  return compiled.program;
}

TEST(ProgramNodesTest, CodesAndScalesAreMadeTogetherInWholeBlocks) {
  const CopyProgram program = encoded(7);
  EXPECT_EQ(program.targets()[0].family, program.targets()[1].family);
  const std::vector<FamilyMember> members{{0, {0, 0}}, {1, {1, 0}}};
  const auto cut = FamilyCut::make(program, members, 13);  // 2 rows of codes and one of scales
  ASSERT_TRUE(cut);
  std::vector<std::pair<int64_t, int64_t>> cuts;
  int64_t read_bytes = 0;
  for (int64_t i = 0; i < cut->count(); ++i) {
    const Tile tile = cut->tile(i);
    ASSERT_EQ(tile.pieces.size(), 2U);
    cuts.emplace_back(tile.pieces[0].end_bytes, tile.pieces[1].end_bytes);
    const TileReads reads = read_tile(program, tile, kDefault);
    EXPECT_EQ(reads.computations.size(), 1U);
    read_bytes += reads.bytes_read;
  }
  EXPECT_THAT(cuts,
              ElementsAre(std::pair(8, 4), std::pair(16, 8), std::pair(24, 12), std::pair(28, 16)));
  EXPECT_EQ(read_bytes, 7 * 8);
}

TEST(ProgramNodesTest, BlocksGoStraightToTheirRows) {
  const Compiled compiled = decoded({{"w", DType::BF16, values()}});
  const auto tiles =
      make_schedule(compiled.program, testing::one_after_another(compiled.program), kDefault);
  ASSERT_EQ(tiles.size(), 1U);
  const TileReads reads = read_tile(compiled.program, tiles[0], kDefault);
  ASSERT_EQ(reads.computations.size(), 1U);
  EXPECT_TRUE(reads.computations[0].results[0].in_place);
  EXPECT_EQ(reads.computations[0].results[0].row_bytes, 12);
  EXPECT_EQ(reads.bytes_read, 40);
}

}  // namespace
}  // namespace weightloom
