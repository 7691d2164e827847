// The kinds of renaming, forwards and backwards, by hand.
#include "weightloom/mapping/transform.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::leaves_named;
using testing::names_of;
using testing::renaming;
using Names = std::vector<std::string>;

Names renamed(const Mapping& mapping, const Names& names) {
  const MappingResult result = apply_mapping(mapping, leaves_named(names), ModelConfig());
  for (const Finding& finding : result.findings) ADD_FAILURE() << finding.message;
  return names_of(result);
}

/// What one transform makes of one name, and what its reverse makes of that.
struct Trip {
  std::string there;
  std::string back;
  friend bool operator==(const Trip&, const Trip&) = default;
};

Trip trip(WeightTransform transform, const std::string& name) {
  const Mapping mapping("m", {std::move(transform)});
  const std::string there = renamed(mapping, {name}).at(0);
  return {there, renamed(mapping.reversed(), {there}).at(0)};
}

/// A trip that ends where it began.
Trip round(const std::string& there, const std::string& name) { return {there, name}; }

TEST(WeightRenaming, CarriesSeveralGroups) {
  const auto swap = renaming(R"(blocks\.(\d+)\.(\w+)\.w$)", R"(layers.\1.mlp.\2.weight)");
  EXPECT_EQ(trip(swap, "m.blocks.3.up.w"), round("m.layers.3.mlp.up.weight", "m.blocks.3.up.w"));
}

TEST(WeightRenaming, MayReorderAndRepeatGroups) {
  const auto turned = renaming(R"(^(a|b)\.(\d+)\.)", R"(^\2.\1.\1.)");
  EXPECT_EQ(trip(turned, "b.7.x"), round("7.b.b.x", "b.7.x"));
  EXPECT_EQ(trip(turned, "c.7.x"), round("c.7.x", "c.7.x"));
}

TEST(WeightRenaming, HasBackReferencesInItsSource) {
  const auto doubled = renaming(R"((\w+)\.\1\.)", R"(\1.)");
  EXPECT_EQ(renamed(Mapping("m", {doubled}), {"x.attn.attn.w", "x.attn.norm.w"}),
            (Names{"x.attn.norm.w", "x.attn.w"}));
  const auto ended = renaming(R"((\w+)\.\1\.w$)", R"(\1.w)");
  EXPECT_EQ(trip(ended, "x.attn.attn.w"), round("x.attn.w", "x.attn.attn.w"));
}

/// What the look-ahead keeps out forwards stays as it is backwards, whatever its text.
TEST(WeightRenaming, WithALookAheadComesBack) {
  const auto rule = renaming(R"(^model(?!\.(language_model|visual)))", "model.language_model");
  const Mapping mapping("m", {rule});
  const Names hub = {"lm_head.w", "model.layers.0.w", "model.visual.w"};
  const Names runtime = {"lm_head.w", "model.language_model.layers.0.w", "model.visual.w"};
  EXPECT_EQ(renamed(mapping, hub), runtime);
  EXPECT_EQ(renamed(mapping.reversed(), runtime), hub);
}

/// An inverse made by editing the text of the pattern mangles the inner group.
TEST(WeightRenaming, WithANestedLookAheadComesBack) {
  const auto rule =
      renaming(R"(^layers\.(\d+)\.(?!(?:mtp_block|enorm|eh_proj)\.))", R"(layers.\1.mtp_block.)");
  EXPECT_EQ(trip(rule, "layers.5.mlp.w"), round("layers.5.mtp_block.mlp.w", "layers.5.mlp.w"));
  EXPECT_EQ(trip(rule, "layers.5.enorm.w"), round("layers.5.enorm.w", "layers.5.enorm.w"));
}

TEST(WeightRenaming, WithALookBehindComesBack) {
  const auto rule = renaming(R"((?<!decoder\.)(?<!text_model\.)norm\.)", "text_model.norm.");
  EXPECT_EQ(trip(rule, "enc.norm.w"), round("enc.text_model.norm.w", "enc.norm.w"));
  EXPECT_EQ(trip(rule, "decoder.norm.w"), round("decoder.norm.w", "decoder.norm.w"));
}

/// The match is replaced, not the first place in the name with the same text.
TEST(WeightRenaming, ReplacesTheMatchAndNotItsTextElsewhere) {
  const auto rule = renaming(R"((?<!_)norm\.)", "NORM.");
  EXPECT_EQ(trip(rule, "layer_norm.norm.w"), round("layer_norm.NORM.w", "layer_norm.norm.w"));
}

/// Backwards too: the first place whose undoing leads forth again, not the first place.
TEST(WeightRenaming, IsUndoneAtThePlaceThatLeadsForthAgain) {
  const auto rule = renaming(R"((?<!a\.)b\.)", "c.");
  EXPECT_EQ(trip(rule, "a.b.x.b.w"), round("a.b.x.c.w", "a.b.x.b.w"));
  EXPECT_EQ(trip(rule, "a.c.x.b.w"), round("a.c.x.c.w", "a.c.x.b.w"));
}

/// huggingface/transformers#46650: names that are in disk form already stay.
TEST(WeightRenaming, ReversedLeavesNamesThatDidNotComeThroughIt) {
  const Mapping mapping("m", {renaming("^layers", "encoder.layers")});
  EXPECT_EQ(renamed(mapping.reversed(), {"embed.w", "encoder.layers.0.w", "layers.1.w"}),
            (Names{"embed.w", "layers.0.w", "layers.1.w"}));
}

/// The group's text, not its number, is what the pattern ends in: no word has to end there.
TEST(WeightRenaming, ThatEndsInAGroupComesBack) {
  const auto rule = renaming(R"(^(layers\.|norm\.))", R"(model.text.\1)");
  EXPECT_EQ(trip(rule, "norm.weight"), round("model.text.norm.weight", "norm.weight"));
}

TEST(WeightRenaming, MayTakeTextAwayAndPutItOn) {
  EXPECT_EQ(trip(renaming(R"(^module\.)", ""), "module.a.w"), round("a.w", "module.a.w"));
  EXPECT_EQ(trip(renaming("^", "model."), "a.w"), round("model.a.w", "a.w"));
  EXPECT_EQ(trip(renaming("^(?!head)", "model."), "a.w"), round("model.a.w", "a.w"));
  EXPECT_EQ(trip(renaming("^(?!head)", "model."), "head.w"), round("head.w", "head.w"));
}

TEST(WeightRenaming, ThatTakesTextAwayAnywhereHasNoWayBack) {
  const Mapping mapping("m", {renaming(R"(_orig_mod\.)", "")});
  EXPECT_EQ(renamed(mapping, {"a._orig_mod.w"}), Names{"a.w"});
  try {
    (void)mapping.reversed();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("read backwards, mapping 'm': transforms[0]"));
    EXPECT_THAT(error.what(), HasSubstr("a source pattern is empty"));
  }
}

TEST(PrefixChange, RemovesAComponentAndPutsItBack) {
  EXPECT_EQ(trip(PrefixChange{"", "vision_model"}, "vision_model.a.w"),
            round("a.w", "vision_model.a.w"));
  EXPECT_EQ(renamed(Mapping("m", {PrefixChange{"", "bad", "model.layers"}}),
                    {"bad.x", "model.layers.bad.w", "model.layersxbad.w"}),
            (Names{"bad.x", "model.layers.w", "model.layersxbad.w"}));
}

TEST(PrefixChange, AddsAComponentUnlessItIsThere) {
  EXPECT_EQ(trip(PrefixChange{"model", ""}, "layers.0.w"), round("model.layers.0.w", "layers.0.w"));
  EXPECT_EQ(renamed(Mapping("m", {PrefixChange{"model", ""}}), {"model.w", "modelling.w"}),
            (Names{"model.modelling.w", "model.w"}));
  EXPECT_EQ(trip(PrefixChange{"language_model", "", "model"}, "model.layers.0.w"),
            round("model.language_model.layers.0.w", "model.layers.0.w"));
}

TEST(PrefixChange, NeedsOneOfTheTwo) {
  for (const PrefixChange& wrong : {PrefixChange{"", ""}, PrefixChange{"a", "b"}}) {
    EXPECT_THROW(Mapping("m", {wrong}), Error);
  }
}

GroupWeightRename norms() {
  return {{R"(blocks.(\d+).norm0)", R"(blocks.(\d+).norm1)"},
          {R"(blocks.\1.norm1)", R"(blocks.\1.norm2)"}};
}

TEST(GroupWeightRename, RenamesEachNameOnce) {
  const Mapping mapping("m", {norms()});
  const Names hub = {"blocks.0.norm0.w", "blocks.0.norm1.w"};
  const Names runtime = {"blocks.0.norm1.w", "blocks.0.norm2.w"};
  EXPECT_EQ(renamed(mapping, hub), runtime);
  EXPECT_EQ(renamed(mapping.reversed(), runtime), hub);
}

/// A checkpoint that is converted already has no norm0, and one that is not has no norm2.
TEST(GroupWeightRename, IsIdleWithoutItsGuard) {
  const Mapping mapping("m", {norms()});
  const Names converted = {"blocks.0.norm1.w", "blocks.0.norm2.w"};
  EXPECT_EQ(renamed(mapping, converted), converted);
  const Names original = {"blocks.0.norm0.w", "blocks.0.norm1.w"};
  EXPECT_EQ(renamed(mapping.reversed(), original), original);
}

/// The guard may be any name, also one that sorts after those that depend on it.
TEST(GroupWeightRename, SeesItsGuardWhereverItStands) {
  const Mapping mapping("m", {GroupWeightRename{{"z0", "a1"}, {"a1", "a2"}}});
  EXPECT_EQ(renamed(mapping, {"a1.w", "z0.w"}), (Names{"a1.w", "a2.w"}));
}

TEST(GroupWeightRename, NeedsPairs) {
  EXPECT_THROW(Mapping("m", {GroupWeightRename{{"a", "b"}, {"c"}}}), Error);
}

TEST(IndexOffsetWeightRename, ShiftsTheIndex) {
  const IndexOffsetWeightRename shift{R"(attn_queries\.(\d+))", R"(layers.\1.query)", 1};
  EXPECT_EQ(trip(shift, "a.attn_queries.0"), round("a.layers.1.query", "a.attn_queries.0"));
  EXPECT_EQ(trip(shift, "a.attn_queries.10"), round("a.layers.11.query", "a.attn_queries.10"));
}

TEST(IndexOffsetWeightRename, LeavesWhatHasNoPlaceThere) {
  const Mapping mapping("m", {IndexOffsetWeightRename{R"(q\.(\w+))", R"(l.\1.q)", -1}});
  EXPECT_EQ(renamed(mapping, {"q.0", "q.00", "q.1", "q.x"}),
            (Names{"l.0.q", "q.0", "q.00", "q.x"}));
}

TEST(Scope, TakesThePathOffBeforeAndPutsItBackAfter) {
  const auto scoped = with_scope(renaming("^layers", "blocks"), {"vision.tower", "model"});
  const Mapping mapping("m", {scoped});
  const Names hub = {"layers.0", "model.vision.tower.layers.0", "vision.tower.layers.0",
                     "vision.towering.layers.0"};
  const Names runtime = {"layers.0", "model.vision.tower.blocks.0", "vision.tower.blocks.0",
                         "vision.towering.layers.0"};
  EXPECT_EQ(renamed(mapping, hub), runtime);
  EXPECT_EQ(renamed(mapping.reversed(), runtime), hub);
}

TEST(Scope, OfTheRootStillPassesTheBaseModel) {
  const Mapping mapping("m", {with_scope(renaming("^layers", "blocks"), {"", "model"})});
  EXPECT_EQ(renamed(mapping, {"layers.0", "model.layers.0"}),
            (Names{"blocks.0", "model.blocks.0"}));
}

TEST(Scope, HoldsForConvertersToo) {
  const Mapping mapping(
      "m", {with_scope(testing::converter({"^e.*.w"}, {"^e"}, {make_merge_modulelist(0)}),
                       {"text", ""})});
  EXPECT_EQ(renamed(mapping, {"e.0.w", "text.e.0.w", "text.e.1.w"}), (Names{"e.0.w", "text.e"}));
  EXPECT_EQ(renamed(mapping.reversed(), {"e", "text.e"}), (Names{"e", "text.e.0.w", "text.e.1.w"}));
}

/// Two sub-models of one type have a converter each, with equal patterns: each claims its own.
TEST(Scope, KeepsSiblingsApart) {
  std::vector<WeightTransform> transforms;
  for (const char* tower : {"left", "right"}) {
    transforms.push_back(
        with_scope(testing::converter({"qkv"}, {"q", "k"}, {make_chunk(0)}), {tower, ""}));
  }
  const Mapping mapping("m", transforms);
  const MappingResult result =
      apply_mapping(mapping, leaves_named({"left.qkv", "right.qkv"}), ModelConfig());
  EXPECT_THAT(names_of(result), ElementsAre("left.k", "left.q", "right.k", "right.q"));
  EXPECT_THAT(result.fired, ElementsAre(1, 1));
}

TEST(Transform, ReversedTwiceIsItself) {
  const std::vector<WeightTransform> transforms = {
      renaming("a", "b"), PrefixChange{"x", "", "m"}, norms(),
      IndexOffsetWeightRename{R"(a(\d+))", R"(b\1)", 3},
      with_scope(testing::converter({"a.*.w"}, {"b"}, {make_merge_modulelist(0)}), {"s", "m"})};
  for (const WeightTransform& transform : transforms) {
    const Mapping once("m", {transform});
    const Mapping twice("m", {reversed(reversed(transform))});
    EXPECT_EQ(once.to_json(), twice.to_json());
  }
}

TEST(Transform, SurvivesItsJson) {
  const Mapping mapping("m", {renaming("a", "b"), PrefixChange{"", "y", "m", true}, norms(),
                              IndexOffsetWeightRename{R"(a(\d+))", R"(b\1)", -3},
                              with_scope(PrefixChange{"x", ""}, {"s", "m"})});
  EXPECT_EQ(Mapping::parse(mapping.to_json(), "m.json").to_json(), mapping.to_json());
}

TEST(Scope, IsNotSearchedPastTheEndOfTheName) {
  const auto scoped = with_scope(renaming(R"((?<!norm)\.weight$)", ""), {"vision_tower", ""});
  const Mapping mapping("m", {scoped});
  EXPECT_EQ(renamed(mapping.reversed(), {"vision_tower.norm"}), Names{"vision_tower.norm"});
}

TEST(IndexOffsetWeightRename, RefusesAnOffsetThatIsNone) {
  for (const int64_t offset : {std::numeric_limits<int64_t>::min(), int64_t{1} << 40}) {
    EXPECT_THROW(Mapping("m", {IndexOffsetWeightRename{R"(a\.(\d+))", R"(b.\1)", offset}}), Error);
  }
}

}  // namespace
}  // namespace weightloom
