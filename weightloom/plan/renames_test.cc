#include "weightloom/plan/renames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(ParseRename, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(parse_rename("a\\.b=c.d"), Rename("a\\.b", "c.d"));
  EXPECT_EQ(parse_rename("a=b=c"), Rename("a", "b=c"));
}

TEST(ParseRename, AnEqualsSignInAnEscapeAClassOrAGroupDoesNotSplit) {
  EXPECT_EQ(parse_rename("a\\=b=c"), Rename("a\\=b", "c"));
  EXPECT_EQ(parse_rename("a[=x]=c"), Rename("a[=x]", "c"));
  EXPECT_EQ(parse_rename("a[^]=]=c"), Rename("a[^]=]", "c"));
  EXPECT_EQ(parse_rename("a[\\]=]=c"), Rename("a[\\]=]", "c"));
  EXPECT_EQ(parse_rename("(?=x)a(?!=)=c"), Rename("(?=x)a(?!=)", "c"));
  EXPECT_EQ(parse_rename("a\\(=c"), Rename("a\\(", "c"));
}

TEST(ParseRename, AnEmptyTextRemoves) {
  EXPECT_EQ(parse_rename("^module\\.="), Rename("^module\\.", ""));
}

TEST(ParseRename, WhatIsNoRenamingIsAUsageError) {
  for (const char* text : {"", "a", "=b", "(a=b)", "(=b", "a[b=c", "a=b|c", "a=\\2"}) {
    const auto error = refusal_of([&] { parse_rename(text); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::usage) << text;
    EXPECT_THAT(error->what(), HasSubstr(text)) << text;
    EXPECT_THAT(error->next_step(), HasSubstr("REGEX=TEXT"));
  }
}

TEST(ApplyRenames, EachWorksOnWhatTheOneBeforeMade) {
  const RenamedNames renamed =
      apply_renames({{"layers\\.(\\d+)", "blocks.\\1"}, {"blocks", "h"}, {"^b$", "c"}},
                    {"b", "m.layers.7.w", "x.blocks.y"}, 1);
  EXPECT_THAT(renamed.names,
              ElementsAre(Optional(std::string("c")), Optional(std::string("m.h.7.w")),
                          Optional(std::string("x.h.y"))));
  EXPECT_TRUE(renamed.findings.empty());
}

TEST(ApplyRenames, OnlyTheLeftmostMatchIsReplaced) {
  EXPECT_THAT(apply_renames({{"a\\.", "b."}}, {"a.a.a"}, 1).names,
              ElementsAre(Optional(std::string("b.a.a"))));
}

TEST(ApplyRenames, OneThatMatchesNothingIsFound) {
  const RenamedNames renamed = apply_renames({{"^b", "c"}, {"nowhere", "x"}}, {"a", "b"}, 1);
  ASSERT_EQ(renamed.findings.size(), 1U);
  EXPECT_EQ(renamed.findings[0].severity, Severity::error);
  EXPECT_EQ(renamed.findings[0].code, "rename_unmatched");
  EXPECT_EQ(renamed.findings[0].message, "--rename 'nowhere=x' matches no tensor");
}

TEST(ApplyRenames, TwoTensorsOfOneNameAreFoundAndTheSecondHasNone) {
  const RenamedNames renamed = apply_renames({{"^a$", "b"}}, {"a", "b", "c"}, 1);
  ASSERT_EQ(renamed.findings.size(), 1U);
  EXPECT_EQ(renamed.findings[0].code, "duplicate_target");
  EXPECT_EQ(renamed.findings[0].tensor, "b");
  EXPECT_THAT(renamed.names,
              ElementsAre(Optional(std::string("b")), std::nullopt, Optional(std::string("c"))));
}

TEST(ApplyRenames, NoneChangeNothing) {
  EXPECT_THAT(apply_renames({}, {"a"}, 1).names, ElementsAre(Optional(std::string("a"))));
}

// huggingface/transformers#25205, #28041; safetensors#403, #524: prefixes in any nesting, stripped
// with a check that no two tensors collide.
TEST(FieldCases, WrapperPrefixesAreStrippedInAnyNesting) {
  const RenamedNames renamed = apply_renames(
      {{"^((_orig_mod|module|_fsdp_wrapped_module)\\.)+", ""}},
      {"_fsdp_wrapped_module.x.w", "_orig_mod.module.y.w", "module._orig_mod.z.w"}, 1);
  EXPECT_THAT(renamed.names, ElementsAre(Optional(std::string("x.w")), Optional(std::string("y.w")),
                                         Optional(std::string("z.w"))));
  EXPECT_TRUE(renamed.findings.empty());
  EXPECT_EQ(apply_renames({{"^module\\.", ""}}, {"module.w", "w"}, 1).findings.at(0).code,
            "duplicate_target");
}

}  // namespace
}  // namespace weightloom
