#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/mapping_testing.h"
#include "weightloom/mapping/pattern_syntax_internal.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {
namespace {

using testing::converter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::renaming;

std::string renamed(const WeightTransform& transform, std::string_view name) {
  TransformMatcher matcher(transform, Pattern::Use::search);
  return matcher.rename(name).value_or("(no match)");
}

std::string renamed(std::string source, std::string target, std::string_view name) {
  return renamed(renaming(std::move(source), std::move(target)), name);
}

std::string refusal(const WeightTransform& transform) {
  try {
    TransformMatcher matcher(transform, Pattern::Use::check);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mapping);
    return error.what();
  }
  return "(accepted)";
}

TEST(SourcePattern, CompilesAsTransformersDoes) {
  const auto syntax = parse_source(".experts.*.w1.weight", {});
  EXPECT_EQ(syntax.regex, R"(.experts.(.*)\.w1.weight(?!\w))");
  EXPECT_THAT(syntax.stars, ElementsAre(1));
  EXPECT_THAT(syntax.literals, ElementsAre("experts", ".w1", "weight"));
}

TEST(SourcePattern, EndsOnANameBoundaryOnlyAfterALetterOrDigit) {
  EXPECT_EQ(renamed("weight", "w", "a.weight_scale"), "(no match)");
  EXPECT_EQ(renamed("weight", "w", "a.weight.absmax"), "a.w.absmax");
  EXPECT_EQ(renamed("hc_", "h_", "a.hc_fn"), "a.h_fn");
}

TEST(SourcePattern, AnUnescapedDotIsAnyCharacter) {
  EXPECT_EQ(renamed("a.b", "c", "x.a-b"), "x.c");
  EXPECT_EQ(renamed(R"(a\.b)", "c", "x.a-b"), "(no match)");
}

TEST(SourcePattern, StarMayBeginAndEndAPattern) {
  EXPECT_EQ(renamed("h.*.ln", "blocks.*.norm", "h.11.ln.bias"), "blocks.11.norm.bias");
}

TEST(SourcePattern, NumbersOwnGroupsApartFromStars) {
  EXPECT_EQ(renamed(R"(l.*.(q|k)_(\w+))", R"(\2.\1.*.x)", "l.3.k_proj"), "proj.k.3.x");
}

TEST(SourcePattern, MayReferToItsOwnGroupBehindAStar) {
  EXPECT_EQ(renamed(R"(l.*.(q|k).\1x)", R"(\1)", "l.3.q.qx"), "q");
  EXPECT_EQ(renamed(R"(l.*.(q|k).\1x)", R"(\1)", "l.3.q.kx"), "(no match)");
}

TEST(SourcePattern, LiteralsAreGivenUpWhereTheyMayBeAbsent) {
  EXPECT_TRUE(parse_source("ab?c", {}).literals.empty());
  EXPECT_TRUE(parse_source("ab|cd", {}).literals.empty());
  EXPECT_TRUE(parse_source("(?i)ab", {}).literals.empty());
  EXPECT_TRUE(parse_source(R"(a\x41)", {}).literals.empty());
  EXPECT_THAT(parse_source(R"(^layers\.(\d+)\.up)", {}).literals, ElementsAre("layers.", ".up"));
  EXPECT_THAT(parse_source(R"((?<!model\.)layer.)", {}).literals, ElementsAre("layer"));
}

TEST(SourcePattern, OptionalPartsStillMatch) {
  EXPECT_EQ(renamed("ab?c", "x", "ac"), "x");
  EXPECT_EQ(renamed("(ab)?c", "x", "c"), "x");
  EXPECT_EQ(renamed("a[bc]+d", "x", "abcbd"), "x");
}

TEST(Renaming, ReplacesAtTheMatchNotAtTheFirstOccurrence) {
  EXPECT_EQ(renamed(R"((?<!_)norm\.)", "NORM.", "layer_norm.norm.weight"),
            "layer_norm.NORM.weight");
}

TEST(Renaming, AnEmptyMatchPrepends) { EXPECT_EQ(renamed("^", "model.", "a.b"), "model.a.b"); }

TEST(Renaming, TheLeftmostMatchWinsThenTheLongestSource) {
  const WeightRenaming two{{"b", "ab"}, {"x", "y"}};
  EXPECT_EQ(renamed(two, "ab"), "y");
  EXPECT_EQ(renamed(two, "b.ab"), "x.ab");
  const WeightRenaming nested{{"weight", R"(weight\.absmax)"}, {"w", "m"}};
  EXPECT_EQ(renamed(nested, "a.weight.absmax"), "a.m");
}

TEST(Renaming, AnAnchoredTargetAnchorsItsSource) {
  EXPECT_EQ(renamed("encoder", "^old", "a.encoder.b"), "(no match)");
  EXPECT_EQ(renamed("encoder", "^old", "encoder.encoder"), "old.encoder");
  EXPECT_EQ(renamed("kernel", "weight$", "a.kernel"), "a.weight");
  EXPECT_EQ(renamed("kernel", "weight$", "a.kernel.s"), "(no match)");
}

TEST(Renaming, AGroupOfTheTargetStandsForItsBackReference) {
  EXPECT_EQ(renamed(R"(\1_t)", R"((enc|dec)\.x)", "a.dec_t"), "a.dec.x");
  EXPECT_EQ(renamed(R"(\2.\1)", "(a|b)-(c|d)", "d.b"), "b-d");
}

TEST(Renaming, DropsLookAroundsOfTheTargetWhole) {
  EXPECT_EQ(renamed("stages", R"((?<!model\.)(?!(?:a|b)\.)st)", "a.stages"), "a.st");
}

TEST(Renaming, KeepsNamesThatAreNotAscii) {
  EXPECT_EQ(renamed(R"(\.(\w+)\.gewicht)", R"(.\1.weight)", "schicht.größe.gewicht"),
            "schicht.größe.weight");
  EXPECT_EQ(renamed("gr..e", "x", "größe"), "x");
}

TEST(Renaming, ANameThatIsNotUtf8IsNoAccident) {
  EXPECT_EQ(renamed("b", "x", "a\xff.b"), "a\xff.x");
}

TEST(TargetPattern, RefusesWhatIsNotOneText) {
  EXPECT_THAT(refusal(renaming("a", "b+")), HasSubstr("target pattern 'b+': '+' at byte 1"));
  EXPECT_THAT(refusal(renaming("a", R"(b\d)")), HasSubstr("the escape at byte 1"));
  EXPECT_THAT(refusal(renaming("a", "b|c")), HasSubstr("'|' at byte 1"));
  EXPECT_THAT(refusal(renaming("a", "b(?:c)")), HasSubstr("the group '(?:c)'"));
  EXPECT_THAT(refusal(renaming(R"(\1)", "b((c)d)")), HasSubstr("the group '((c)d)'"));
  EXPECT_THAT(refusal(renaming("a", "(b")), HasSubstr("a group is not closed"));
  EXPECT_THAT(refusal(renaming("a", "b*")), HasSubstr("'*' at byte 1"));
}

TEST(TargetPattern, RefusesAGroupThatTheSourceLacks) {
  EXPECT_THAT(refusal(renaming("(a)", R"(\2)")), HasSubstr(R"(takes \2 from a source)"));
  EXPECT_THAT(refusal(renaming("a", R"(\1)")), HasSubstr(R"(takes \1 from a source)"));
  EXPECT_THAT(refusal(renaming("a", "(b)")), HasSubstr(R"(takes \1 from a source)"));
  EXPECT_THAT(refusal(renaming(R"(a\2)", "(b)")), HasSubstr(R"(\2 names no group: there are 1)"));
}

TEST(Stars, AtMostOneIsWithoutPartner) {
  EXPECT_THAT(refusal(converter({"a.*.b.*.c"}, {"d"}, {})), HasSubstr("from 0 to 2 '*.'"));
  EXPECT_THAT(refusal(renaming("a", "b.*.c")), HasSubstr("no list to enumerate"));
}

TEST(SourcePattern, SaysWhereItDoesNotCompile) {
  EXPECT_THAT(refusal(renaming("a[b", "c")), HasSubstr("pattern 'a[b' does not compile"));
  EXPECT_THAT(refusal(renaming(R"(\Q(a)\E)", "c")), HasSubstr("cannot be told apart"));
}

/// The time a search takes is bounded whatever the pattern: the limits end it.
TEST(SourcePattern, AHostileOneEndsQuicklyAndIsNamed) {
  const std::string name = std::string(5000, 'a') + "!";
  for (const std::string hostile : {"((a|aa)+)+$", "(a*)*(a*)*(a*)*b$", R"((?:(\w+)*)+\d)"}) {
    const auto begin = std::chrono::steady_clock::now();
    std::string message;
    try {
      renamed(hostile, "x", name);
      message = "(no match)";  // the engine may see at once that nothing matches
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mapping);
      message = error.what();
      EXPECT_THAT(message, HasSubstr("pattern '" + hostile + "' is too costly"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << message;
  }
  EXPECT_THROW(renamed("((a|aa)+)+$", "x", name), Error);
}

}  // namespace
}  // namespace weightloom
