#include "weightloom/mapping/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/mapping_testing.h"

namespace weightloom {
namespace {

using testing::converter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::renaming;

constexpr std::string_view kMixtral =
    R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [
  {"type": "WeightRenaming", "source_patterns": [".block_sparse_moe."], "target_patterns": [".mlp."]},
  {"type": "WeightConverter", "source_patterns": [".experts.*.w1.weight", ".experts.*.w3.weight"], "target_patterns": [".experts.gate_up_proj"], "required": true, "operations": [{"op": "MergeModulelist", "dim": 0}, {"op": "Concatenate", "dim": 1}]}]}
)";

std::string refusal(std::string_view json) {
  try {
    Mapping::parse(json, "m.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mapping);
    return error.what();
  }
  return "(accepted)";
}

/// The refusal of a mapping with these transforms.
std::string refusal_of(const std::string& transforms) {
  return refusal(R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [)" + transforms +
                 "]}");
}

/// The refusal of a converter with this operation.
std::string refusal_of_operation(const std::string& operation) {
  return refusal_of(
      R"({"type": "WeightConverter", "source_patterns": ["a"], "target_patterns": ["b"], "operations": [)" +
      operation + "]}");
}

TEST(MappingJson, ReadsWhatTheFormSays) {
  const Mapping mapping = Mapping::parse(kMixtral, "m.json");
  EXPECT_EQ(mapping.name(), "m");
  ASSERT_EQ(mapping.transforms().size(), 2u);
  const auto& renames = std::get<WeightRenaming>(mapping.transforms()[0]);
  EXPECT_THAT(renames.target_patterns, ElementsAre(".mlp."));
  EXPECT_FALSE(renames.required);
  const auto& converts = std::get<WeightConverter>(mapping.transforms()[1]);
  EXPECT_EQ(converts.operations.at(1)->name(), "Concatenate");
  EXPECT_TRUE(converts.required);
}

TEST(MappingJson, IsWrittenAsItIsRead) {
  EXPECT_EQ(Mapping::parse(kMixtral, "m.json").to_json(), kMixtral);
}

TEST(MappingJson, ReversedMappingsAreWrittenAndReadToo) {
  const Mapping reversed = Mapping::parse(kMixtral, "m.json").reversed();
  EXPECT_FALSE(reversed.renames_first());
  const Mapping again = Mapping::parse(reversed.to_json(), "m.json");
  EXPECT_FALSE(again.renames_first());
  EXPECT_EQ(again.hash(), reversed.hash());
}

TEST(MappingJson, EveryOperationSurvivesTheTrip) {
  const Mapping mapping(
      "m",
      {converter(
          {"a"}, {"b"},
          {make_chunk(1), make_split(0, {1, 2}), make_concatenate(0, {3, 4}),
           make_interleave(1, true), make_merge_modulelist(0, {"n"}), make_chunk(0, "parts"),
           make_unflatten(0, {"g", -1}), make_flatten(0, {2, -1, "d"}),
           make_concatenate(1, {}, "parts|2*n"), make_split(0, {"heads*head_dim", 3}),
           make_split_modulelist(2), make_transpose(0, 2), make_checked_transpose(0, 1, {"n", 4}),
           make_permute_for_rope({.num_heads = "h",
                                  .subconfig_key = "vision_config",
                                  .permute_layer_names = {"q", "k"},
                                  .inverse = true}),
           make_permute_for_rope({.num_heads_of = {{"k_proj", "kv"}, {"q_proj", 4}}})})});
  EXPECT_EQ(Mapping::parse(mapping.to_json(), "m.json").to_json(), mapping.to_json());
}

TEST(MappingJson, RopeReadsAttentionHeadsUnlessTold) {
  const Mapping mapping = Mapping::parse(
      R"({"format": "weightloom.mapping/1", "name": "m", "transforms": [{"type": "WeightConverter",
          "source_patterns": ["a"], "target_patterns": ["b"], "operations": [{"op": "PermuteForRope"}]}]})",
      "m.json");
  EXPECT_THAT(mapping.to_json(), HasSubstr(R"("num_heads": "num_attention_heads")"));
}

TEST(MappingJson, NamesTheFileAndThePlace) {
  EXPECT_THAT(refusal("["), HasSubstr("m.json: not JSON: parse error at line 1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("m.json: must be a JSON object, but is an array"));
  EXPECT_THAT(refusal("{}"), HasSubstr("m.json: 'format' is missing"));
  EXPECT_THAT(refusal(R"({"format": "x/1"})"), HasSubstr("format is 'x/1', but needs to be"));
  EXPECT_THAT(refusal_of("1"), HasSubstr("m.json: transforms[0]: must be an object"));
  EXPECT_THAT(refusal_of(R"({"type": "WeightRenaming", "source_patterns": ["a"]})"),
              HasSubstr("m.json: transforms[0]: 'target_patterns' is missing"));
  EXPECT_THAT(
      refusal_of(R"({"type": "WeightRenaming", "source_patterns": "a", "target_patterns": ["b"]})"),
      HasSubstr("'source_patterns' must be a list"));
}

TEST(MappingJson, RefusesDuplicateKeys) {
  EXPECT_THAT(refusal(R"({"name": "a", "x": {"name": 1}, "name": "b"})"),
              HasSubstr("m.json: duplicate key 'name'"));
}

TEST(MappingJson, RefusesUnknownWordsWithASuggestion) {
  EXPECT_THAT(refusal(R"({"formt": 1})"), HasSubstr("unknown key 'formt': did you mean 'format'?"));
  EXPECT_THAT(refusal_of(R"({"type": "WeightRenamer"})"),
              HasSubstr("no transform type 'WeightRenamer', did you mean 'WeightRenaming'?"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Chunks", "dim": 0})"),
              HasSubstr("transforms[0].operations[0]: there is no operation 'Chunks', did you mean "
                        "'Chunk'?"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Reshape"})"),
              HasSubstr("there are Chunk, Concatenate"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Chunk", "dims": 0})"),
              HasSubstr("unknown key 'dims': did you mean 'dim'?"));
}

TEST(MappingJson, ChecksParameters) {
  EXPECT_THAT(refusal_of_operation(R"({"op": "Chunk", "dim": -1})"),
              HasSubstr("operations[0]: 'dim' must be 0 or more, not -1"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Chunk", "dim": 0.5})"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Split", "dim": 0, "sizes": [1, -2]})"),
              HasSubstr("operations[0]: Split: sizes [1, -2] make no sense"));
  EXPECT_THAT(refusal_of_operation(R"({"op": "Interleave", "dim": 0, "inverse": 1})"),
              HasSubstr("'inverse' must be true or false"));
}

TEST(MappingJson, RefusesWhatIsNestedBeyondReason) {
  EXPECT_THAT(refusal(R"({"a": )" + std::string(5000, '[')), HasSubstr("nested more than 100"));
}

TEST(Mapping, RefusesListsThatDoNotFit) {
  const auto refuse = [](WeightTransform transform) -> std::string {
    try {
      Mapping("m", {std::move(transform)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mapping);
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refuse(WeightRenaming{{"a", "b", "c"}, {"d", "e"}}),
              HasSubstr("transforms[0] (WeightRenaming): a renaming of 3 source patterns has 2"));
  EXPECT_THAT(refuse(WeightRenaming{{}, {"d"}}), HasSubstr("no source patterns"));
  EXPECT_THAT(refuse(WeightRenaming{{""}, {"d"}}), HasSubstr("a source pattern is empty"));
  EXPECT_THAT(refuse(converter({"a", "a"}, {"b"}, {})), HasSubstr("'a' stands there twice"));
  EXPECT_THAT(refuse(converter({"(a)(b)"}, {R"(\1)", R"(\2)"}, {})), HasSubstr("different groups"));
  EXPECT_THAT(refuse(renaming("a(", "b")), HasSubstr("pattern 'a('"));
}

TEST(Mapping, ReversesTransformsOrderAndPhases) {
  const Mapping reversed = Mapping::parse(kMixtral, "m.json").reversed();
  EXPECT_EQ(std::get<WeightRenaming>(reversed.transforms()[1]).source_patterns[0], ".mlp.");
  const auto& converts = std::get<WeightConverter>(reversed.transforms()[0]);
  EXPECT_THAT(converts.source_patterns, ElementsAre(".experts.gate_up_proj"));
  EXPECT_EQ(converts.operations[0]->to_json(), R"({"op": "Chunk", "dim": 1})");
  EXPECT_EQ(converts.operations[1]->to_json(), R"({"op": "SplitModulelist", "dim": 0})");
  EXPECT_EQ(reversed.reversed().to_json(), kMixtral);
}

TEST(Mapping, GoesBackWithoutItsOneWayRenamings) {
  const Mapping mapping("m",
                        {WeightRenaming{{"x\\.\\d+\\."}, {"x."}}, WeightRenaming{{"a"}, {"b"}}});
  EXPECT_THROW((void)mapping.reversed(), Error);
  const Mapping back = mapping.without_one_way_renamings().reversed();
  ASSERT_EQ(back.transforms().size(), 1);
  EXPECT_THAT(form_of(back.transforms().front()).source_patterns, ElementsAre("b"));
}

TEST(Mapping, SaysWhichTransformHasNoWayBack) {
  const Mapping mapping("m", {renaming(R"(layers\.\d+)", "x")});
  try {
    (void)mapping.reversed();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("read backwards, mapping 'm': transforms[0]"));
  }
}

/// The hash of a mapping is part of the provenance form: it may not change by accident.
TEST(Mapping, HashIsFnv1aOfTheJson) {
  EXPECT_EQ(Mapping("", {}).to_json(),
            "{\"format\": \"weightloom.mapping/1\", \"name\": \"\", \"transforms\": []}\n");
  EXPECT_EQ(Mapping("a", {}).hash().size(), 16u);
  EXPECT_NE(Mapping("a", {}).hash(), Mapping("b", {}).hash());
}

}  // namespace
}  // namespace weightloom
