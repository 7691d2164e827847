#include "weightloom/plan/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/layout/operations.h"

namespace weightloom {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<ProgramSource> kSources = {{"a", DType::F32, {2, 3}, 0, 100, 24},
                                             {"b", DType::F32, {2, 3}, 0, 124, 24}};

Compiled compile_targets(std::vector<NamedLayout> targets) {
  return compile({{"f", "f", {}}}, kSources, std::move(targets));
}

std::vector<std::string> codes(const Compiled& compiled) {
  std::vector<std::string> result;
  for (const Finding& finding : compiled.findings) {
    result.push_back(finding.code + " " + finding.tensor);
  }
  return result;
}

Layout a() { return identity(0, {2, 3}); }
Layout b() { return identity(1, {2, 3}); }

TEST(CompileTest, SourcesUsedOnceGiveAProgramWithoutFindings) {
  const auto compiled =
      compile_targets({{"ab", DType::F32, stack(std::vector<Layout>{a(), b()}, 0)}});
  EXPECT_THAT(compiled.findings, IsEmpty());
  ASSERT_EQ(compiled.program.targets().size(), 1U);
  EXPECT_EQ(compiled.program.targets()[0].size_bytes, 48);
  EXPECT_EQ(compiled.program.target_bytes(), 48);
  EXPECT_EQ(compiled.program.region_count(), 2);
  EXPECT_TRUE(compiled.program.targets()[0].disjoint_hulls);
}

TEST(CompileTest, AnUnusedSourceIsNamedWithItsElement) {
  const auto compiled = compile_targets({{"a", DType::F32, a()}});
  EXPECT_THAT(codes(compiled), ElementsAre("source_not_used b"));
  EXPECT_THAT(compiled.findings[0].message, HasSubstr("element [0, 0] goes to 0 targets"));
  EXPECT_FALSE(is_refusal(compiled.findings[0], true));
  EXPECT_TRUE(is_refusal(compiled.findings[0], false));
}

TEST(CompileTest, HalfASourceIsNotEnough) {
  const auto compiled =
      compile_targets({{"a", DType::F32, a()}, {"half", DType::F32, slice(b(), 1, 0, 2)}});
  EXPECT_THAT(codes(compiled), ElementsAre("source_not_used b"));
  EXPECT_THAT(compiled.findings[0].message, HasSubstr("element [0, 2]"));
  EXPECT_TRUE(is_refusal(compiled.findings[0], true));
}

TEST(CompileTest, ASourceThatGoesTwiceIsNamed) {
  const auto compiled =
      compile_targets({{"a", DType::F32, a()}, {"b", DType::F32, b()}, {"c", DType::F32, b()}});
  EXPECT_THAT(codes(compiled), ElementsAre("source_used_twice b"));
}

TEST(CompileTest, AHoleInATargetIsNamed) {
  const Layout hole = Layout::make({2, 3}, {{0, 0, 0, 0, {{4, 1, 1}}}});
  const auto compiled = compile_targets({{"t", DType::F32, hole}, {"b", DType::F32, b()}});
  EXPECT_THAT(codes(compiled), Contains("target_not_written t"));
  EXPECT_THAT(compiled.findings[0].message, HasSubstr("element [1, 1] is written 0 times"));
}

TEST(CompileTest, AHoleAndAnOverlapThatCancelInTheSumAreFound) {
  const Layout wrong = Layout::make(
      {2, 3}, {{0, 0, 0, 0, {{3, 1, 1}}}, {0, 0, 3, 2, {{3, 1, 1}}}});  // 2 twice, 5 never
  const auto compiled = compile_targets({{"t", DType::F32, wrong}, {"b", DType::F32, b()}});
  EXPECT_THAT(codes(compiled), Contains("target_written_twice t"));
  EXPECT_THAT(compiled.findings[0].message, HasSubstr("element [0, 2] is written 2 times"));
}

TEST(CompileTest, DtypesMustAgree) {
  const auto compiled = compile_targets({{"a", DType::I32, a()}, {"b", DType::F32, b()}});
  EXPECT_THAT(codes(compiled), ElementsAre("dtype_mismatch a"));
  EXPECT_THAT(compiled.findings[0].message,
              HasSubstr("target 'a' is I32, but its source 'a' is F32"));
}

Compiled compile_casting(std::vector<NamedLayout> targets) {
  const auto may_cast = [](const std::string& name) { return name != "kept"; };
  return compile({{"f", "f", {}}}, kSources, std::move(targets), may_cast);
}

TEST(CompileTest, ACastThatWasAskedForIsCompiled) {
  const auto compiled = compile_casting({{"a", DType::BF16, a()}, {"b", DType::F32, b()}});
  EXPECT_THAT(compiled.findings, IsEmpty());
  const auto targets = compiled.program.targets();
  EXPECT_EQ(targets[0].size_bytes, 12);
  EXPECT_TRUE(targets[0].has_casts);
  const RegionType type = compiled.program.type_of(targets[0], targets[0].regions[0]);
  EXPECT_EQ(type.from, DType::F32);
  EXPECT_EQ(type.to, DType::BF16);
  EXPECT_FALSE(targets[1].has_casts);
  EXPECT_FALSE(compiled.program.type_of(targets[1], targets[1].regions[0]).casts());
}

TEST(CompileTest, ACastIsForTargetsThatWereAskedForAndCastableDTypesOnly) {
  EXPECT_THAT(codes(compile_casting({{"kept", DType::BF16, a()}, {"b", DType::F32, b()}})),
              ElementsAre("dtype_mismatch kept"));
  EXPECT_THAT(codes(compile_casting({{"a", DType::I32, a()}, {"b", DType::F32, b()}})),
              ElementsAre("dtype_mismatch a"));
}

TEST(CompileTest, TwoTargetsOfOneNameAreRefused) {
  const auto compiled = compile_targets({{"t", DType::F32, a()}, {"t", DType::F32, b()}});
  EXPECT_THAT(codes(compiled), Contains("duplicate_target t"));
}

TEST(CompileTest, AllFaultsAreFoundAtOnce) {
  const auto compiled =
      compile_targets({{"t", DType::I64, a()}, {"u", DType::F32, Layout::make({1}, {})}});
  EXPECT_THAT(codes(compiled),
              ElementsAre("dtype_mismatch t", "target_not_written u", "source_not_used b"));
}

TEST(CompileTest, SelectedTargetsKeepTheirOrder) {
  const auto compiled = compile_targets({{"b", DType::F32, b()}, {"a", DType::F32, a()}});
  const CopyProgram selected = select_targets(compiled.program, {false, true});
  ASSERT_EQ(selected.targets().size(), 1U);
  EXPECT_EQ(selected.targets()[0].name, "a");
}

TEST(CompileTest, StrictFindingsRefuseUnlessLenient) {
  const Finding strict{Severity::strict, "x", "", "", ""};
  const Finding report{Severity::report, "x", "", "", ""};
  const Finding error{Severity::error, "x", "", "", ""};
  EXPECT_TRUE(is_refusal(strict, false));
  EXPECT_FALSE(is_refusal(strict, true));
  EXPECT_FALSE(is_refusal(report, false));
  EXPECT_TRUE(is_refusal(error, true));
}

}  // namespace
}  // namespace weightloom
