#include "weightloom/mapping/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/registry.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;

Provenance example() {
  return {"runtime",
          *Registry::built_in().find("mixtral"),
          {0, 2},
          "{\"model_type\":  \"mixtral\"}\n",
          {{"model-00001-of-00001.safetensors", "{\"ä\": \"\\u00e9\\n\"}   "}},
          {{"model.safetensors.index.json", "{\n  \"weight_map\": {}\n}\n"}},
          {{DType::F32, {}}, {DType::BF16, {"*.gate.*", "norm"}}}};
}

std::string refusal(const std::string& json) {
  try {
    parse_provenance(json, "weightloom.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return "(accepted)";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Provenance, SurvivesTheTripByteForByte) {
  const Provenance record = example();
  const std::string text = format_provenance(record);
  const Provenance again = parse_provenance(text, "weightloom.json");
  EXPECT_EQ(format_provenance(again), text);
  EXPECT_EQ(again.layout, "runtime");
  EXPECT_EQ(again.mapping.to_json(), record.mapping.to_json());
  EXPECT_EQ(again.fired, record.fired);
  EXPECT_EQ(again.config_json, record.config_json);
  EXPECT_EQ(again.files.at(0).name, record.files.at(0).name);
  EXPECT_EQ(again.files.at(0).header_json, record.files.at(0).header_json);
  EXPECT_EQ(again.index, record.index);
  EXPECT_EQ(again.casts, record.casts);
}

TEST(Provenance, SaysNothingOfCastsWhereThereWereNone) {
  Provenance record = example();
  record.casts.clear();
  const std::string text = format_provenance(record);
  EXPECT_EQ(text.find("casts"), std::string::npos);
  EXPECT_TRUE(parse_provenance(text, "weightloom.json").casts.empty());
}

TEST(Provenance, NeedsNoFilesAndNoIndex) {
  Provenance record = example();
  record.files.clear();
  record.index.reset();
  const Provenance again = parse_provenance(format_provenance(record), "weightloom.json");
  EXPECT_TRUE(again.files.empty());
  EXPECT_FALSE(again.index.has_value());
}

TEST(Provenance, RefusesAMappingThatIsNotTheOneItStates) {
  const std::string text = replaced(format_provenance(example()), ".mlp.", ".mpl.");
  EXPECT_THAT(refusal(text), HasSubstr("weightloom.json: the mapping's hash is"));
}

/// The way back would write one file twice, or the index over the config.
TEST(Provenance, RefusesFilesThatWouldOverwriteOneAnother) {
  Provenance twice = example();
  twice.files.push_back(twice.files.front());
  EXPECT_THAT(refusal(format_provenance(twice)),
              HasSubstr("'files' has 'model-00001-of-00001.safetensors' twice"));
  Provenance odd = example();
  odd.index->first = "config.json";
  EXPECT_THAT(refusal(format_provenance(odd)), HasSubstr("the index name 'config.json'"));
}

TEST(Provenance, RefusesWhatItDoesNotKnow) {
  const std::string text = format_provenance(example());
  EXPECT_THAT(refusal(replaced(text, "provenance/1", "provenance/2")), HasSubstr("provenance/2"));
  EXPECT_THAT(refusal(replaced(text, "\"runtime\"", "\"both\"")), HasSubstr("layout is 'both'"));
  EXPECT_THAT(refusal(replaced(text, "[0, 2]", "[2, 0]")), HasSubstr("'fired' has 0"));
  EXPECT_THAT(refusal(replaced(text, "\"BF16\"", "\"I32\"")),
              HasSubstr("casts[1]: 'dtype' is 'I32', but needs to be BF16, F16, F32 or F64"));
  EXPECT_THAT(refusal(replaced(text, "[0, 2]", "[0, 3]")), HasSubstr("in 3 transforms"));
  EXPECT_THAT(refusal(replaced(text, "\"fired\"", "\"fierd\"")),
              HasSubstr("did you mean 'fired'?"));
  EXPECT_THAT(refusal(replaced(text, "\"Concatenate\"", "\"Concat\"")), HasSubstr("'Concat'"));
}

}  // namespace
}  // namespace weightloom
