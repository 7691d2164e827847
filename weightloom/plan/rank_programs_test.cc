#include "weightloom/plan/rank_programs.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/chain_testing.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The rows of a part, one by one; -1 is a pad.
std::vector<int64_t> rows_of(const Segments& segments) {
  std::vector<int64_t> rows;
  for (const Segment& segment : segments) {
    for (int64_t i = 0; i < segment.size; ++i) {
      rows.push_back(segment.is_pad ? -1 : segment.begin + i);
    }
  }
  return rows;
}

/// The part of a whole tensor's bytes, gathered element by element.
Bytes part_of(const Bytes& whole, const ProgramTarget& target, const LocalPart& part) {
  const auto width = static_cast<size_t>(bits(target.dtype) / 8);
  const Shape shape = local_shape(part);
  Bytes bytes(static_cast<size_t>(elements(shape)) * width);
  for (int64_t i = 0; i < elements(shape); ++i) {
    const Index at = unravel(i, shape);
    Index from;
    bool is_pad = false;
    for (size_t d = 0; d < at.size(); ++d) {
      from.push_back(rows_of(part[d])[static_cast<size_t>(at[d])]);
      is_pad = is_pad || from.back() < 0;
    }
    if (is_pad) continue;
    std::memcpy(bytes.data() + static_cast<size_t>(i) * width,
                whole.data() + ravel(from, target.shape) * width, width);
  }
  return bytes;
}

TEST(RankProgramsTest, EachRankMakesItsPartOfTheWhole) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 150; ++seed) {
    const RandomProgram random = random_program(seed, 5, "nowhere");
    const Spread spread = random_spread(seed, random.program);
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const std::vector<Bytes> whole = random.expected();
    const auto source_bytes = [&](const ProgramSource& s) { return random.source_bytes(s); };
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < spread.meshes.size(); ++rank) ranks.push_back(rank);
    const RankPrograms made = program_of_ranks(random.program, spread, ranks);
    const std::vector<Bytes> locals = interpret(made.program, source_bytes);
    for (size_t i = 0; i < locals.size(); ++i) {
      const ProgramTarget& target = random.program.targets()[made.wholes[i]];
      const auto part =
          local_part(spread.shardings[made.wholes[i]], spread.meshes, target.shape, made.ranks[i]);
      ASSERT_EQ(made.program.targets()[i].shape, local_shape(*part));
      ASSERT_EQ(locals[i], part_of(whole[made.wholes[i]], target, *part));
    }
  }
}

/// A program of one target of bytes that is its source.
CopyProgram program_of(DType dtype, Shape shape) {
  const int64_t size = *checked_bytes(dtype, shape);
  return CopyProgram({{"f", "f", {}}}, {{"a", dtype, shape, 0, 0, size}},
                     {{"a", dtype, shape, size, {{0, 0, 0, 0, {{size, 1, 1}}}}, true}});
}

std::string finding_of(const CopyProgram& program, const Sharding& sharding) {
  const auto findings = check_spread(program, {MeshSet::parse("tp=2"), {sharding}});
  return findings.empty() ? "" : findings[0].code + ": " + findings[0].message;
}

TEST(RankProgramsTest, AllThatIsWrongWithASpreadIsFoundBefore) {
  const CopyProgram program = program_of(DType::U8, {3, 4});
  EXPECT_EQ(finding_of(program, {.steps = {CutStep{"tp", 1}}}), "");
  EXPECT_THAT(finding_of(program, {.steps = {CutStep{"ep", 0}}}),
              HasSubstr("bad_sharding: 'a' U8 [3, 4]: there is no axis 'ep'"));
  EXPECT_THAT(finding_of(program, {.steps = {CutStep{"tp", 0, {.rule = CutRule::even}}}}),
              HasSubstr("bad_sharding: 'a' U8 [3, 4]: an even cut: 3 rows"));
  const Cut hole{.rule = CutRule::table, .table = {{{0, 1}}, {{2, 3}}}};
  EXPECT_THAT(finding_of(program, {.steps = {CutStep{"tp", 0, hole}}}),
              HasSubstr("bad_partition: 'a' U8 [3, 4]: the parts do not make up"));
}

TEST(RankProgramsTest, ACutInsideAByteIsRefused) {
  const CopyProgram program = program_of(DType::F4, {2, 6});
  EXPECT_EQ(finding_of(program, {.steps = {CutStep{"tp", 0}}}), "");
  EXPECT_THAT(finding_of(program, {.steps = {CutStep{"tp", 1}}}),
              HasSubstr("inside_byte: 'a' F4 [2, 6]: a cut falls inside a byte (rank 0)"));
}

TEST(RankProgramsTest, PartsOfTheSameRowsAreAFamily) {
  const CopyProgram program = program_of(DType::U8, {4, 4});
  const Spread spread{MeshSet::parse("fsdp=2,tp=2"),
                      {{.steps = {CutStep{"tp", 1}, CutStep{"fsdp", 0}}}}};
  const std::vector<int64_t> all = {0, 1, 2, 3};
  const RankPrograms made = program_of_ranks(program, spread, all);
  std::vector<int32_t> families;
  for (const ProgramTarget& target : made.program.targets()) families.push_back(target.family);
  EXPECT_THAT(families, ElementsAre(0, 0, 1, 1));
  const std::vector<int64_t> one = {2};
  EXPECT_EQ(program_of_ranks(program, spread, one).program.targets()[0].family, -1);
}

TEST(RankProgramsTest, AStageHasOnlyItsTargets) {
  const CopyProgram program = program_of(DType::U8, {4});
  const Spread spread{MeshSet::parse("pp=2"), {{.steps = {StageStep{"pp", {1}}}}}};
  const std::vector<int64_t> all = {0, 1};
  EXPECT_THAT(program_of_ranks(program, spread, all).ranks, ElementsAre(1));
}

}  // namespace
}  // namespace weightloom::testing
