#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/execute/config_edit_internal.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string without_model(std::string_view name) {
  constexpr std::string_view kPrefix = "model.";
  return std::string(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
}

TEST(ConfigQuantisation, IsTakenOutWithItsCommaAndNothingElse) {
  struct Case {
    const char* before;
    const char* after;
  };
  const Case cases[] = {
      {"{\n  \"a\": NaN,\n  \"quantization_config\": {\n    \"x\": [\"}\"]\n  },\n  \"b\" : 1\n}\n",
       "{\n  \"a\": NaN,\n  \"b\" : 1\n}\n"},
      {"{\n  \"a\": -Infinity,\n  \"quantization_config\": {}\n}\n", "{\n  \"a\": -Infinity\n}\n"},
      {"{\n  \"quantization_config\": {\"q\": {}},\n\n  \"a\": 1}", "{\n  \"a\": 1}"},
      {"{\n  \"quantization_config\": null\n}", "{\n}"},
      {R"({"quantization_config": 1, "compression_config": {}})", "{}"},
      {R"({"text_config": {"quantization_config": {"a": "\"{"}, "b": 2}, "c": "\\"})",
       R"({"text_config": {"b": 2}, "c": "\\"})"},
      {R"({"quantization_config": {}, "text_config": {"compression_config": {}}})",
       R"({"text_config": {}})"},
      {R"({"vision_config": {"quantization_config": {}}, "a": ["quantization_config", {}]})",
       R"({"vision_config": {"quantization_config": {}}, "a": ["quantization_config", {}]})"},
      {R"({"quantization\u005fconfig": {}, "a": 1})", R"({"a": 1})"},
      {"{}", "{}"},
      {" { } ", " { } "},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(config_without_quantisation(one.before), one.after) << one.before;
  }
}

TEST(ConfigQuantisation, IsWrittenBehindTheLastMemberAsTheTextIsIndented) {
  const std::string value = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";
  EXPECT_EQ(config_with_quantisation("{\n  \"a\": NaN,\n  \"b\": {\"c\": 1}\n}\n", value),
            "{\n  \"a\": NaN,\n  \"b\": {\"c\": 1},\n  \"quantization_config\": {\n"
            "    \"quant_method\": \"fp8\",\n    \"weight_block_size\": [\n      128,\n"
            "      128\n    ]\n  }\n}\n");
  EXPECT_EQ(config_with_quantisation(R"({"a": 1})", value),
            R"({"a": 1, "quantization_config": )" + value + "}");
  EXPECT_EQ(config_with_quantisation("{}", value), R"({"quantization_config": )" + value + "}");
}

TEST(ConfigQuantisation, IsReplacedWhereTheFirstStands) {
  EXPECT_EQ(config_with_quantisation(R"({"z": 1, "quantization_config": {"old": [1]}, "b": 2})",
                                     R"({"new": 1})"),
            R"({"z": 1, "quantization_config": {"new": 1}, "b": 2})");
  EXPECT_EQ(config_with_quantisation(
                R"({"text_config": {"quantization_config": {"old": 1}, "v": 1}})", R"({"n": []})"),
            R"({"text_config": {"quantization_config": {"n": []}, "v": 1}})");
  EXPECT_EQ(config_with_quantisation(
                R"({"text_config": {"quantization_config": {}, "v": 1}, "compression_config": 1})",
                R"({"n": true})"),
            R"({"text_config": {"v": 1}, "quantization_config": {"n": true}})");
  EXPECT_EQ(
      config_with_quantisation("{\n  \"quantization_config\": null,\n  \"a\": 1\n}", R"({"n": 1})"),
      "{\n  \"quantization_config\": {\n    \"n\": 1\n  },\n  \"a\": 1\n}");
}

TEST(ConfigQuantisation, ListsOfModulesAreRenamedInPlace) {
  const auto result = renamed_modules(
      "{\"ignore\": [\"model.a\"], \"quantization_config\": {\"modules_to_not_convert\": [\n"
      "  \"model.gate\", \"lm_head\"  ], \"fmt\" : \"model.x\",\n\"ignored_layers\":"
      "[\"model.b\", 3], \"llm_int8_skip_modules\": null, \"exclude_modules\": [ ]}}",
      without_model);
  EXPECT_EQ(result.text,
            "{\"ignore\": [\"model.a\"], \"quantization_config\": {\"modules_to_not_convert\": [\n"
            "  \"gate\", \"lm_head\"  ], \"fmt\" : \"model.x\",\n\"ignored_layers\":"
            "[\"b\", 3], \"llm_int8_skip_modules\": null, \"exclude_modules\": [ ]}}");
  EXPECT_THAT(result.patterns, IsEmpty());
}

TEST(ConfigQuantisation, PatternsOfModulesStayAndAreTold) {
  const std::string text =
      R"({"text_config": {"quantization_config": {"config_groups": {"g": {"targets": ["Linear", )"
      R"("re:.*model.x", "model.q.k"]}}, "ignore": ["re:model\\.a", "model.b"]}}})";
  const auto result = renamed_modules(text, without_model);
  EXPECT_EQ(result.text,
            R"({"text_config": {"quantization_config": {"config_groups": {"g": {"targets": )"
            R"(["Linear", "re:.*model.x", "q.k"]}}, "ignore": ["re:model\\.a", "b"]}}})");
  EXPECT_THAT(result.patterns, ElementsAre("re:.*model.x", R"(re:model\.a)"));
}

TEST(ConfigQuantisation, ANameThatItsListHasAlreadyGoes) {
  const auto fused = [](std::string_view name) {
    return std::string(name == "w1" || name == "w3" ? "gate_up" : name);
  };
  EXPECT_EQ(
      renamed_modules(R"({"quantization_config": {"ignore": ["w1", "w3", "x", "w1"]}})", fused)
          .text,
      R"({"quantization_config": {"ignore": ["gate_up", "x"]}})");
  EXPECT_EQ(renamed_modules(R"({"quantization_config": {"ignore": ["w1","w3"]}})", fused).text,
            R"({"quantization_config": {"ignore": ["gate_up"]}})");
}

TEST(ConfigQuantisation, NothingChangesWhereNothingIsRenamed) {
  for (const std::string text :
       {R"({"quantization_config": {"ignore": ["\u0061b", "c"]}})", R"({"a": ["model.b"]})", "{}",
        R"({"quantization_config": [1], "compression_config": "x"})"}) {
    EXPECT_EQ(renamed_modules(text, without_model).text, text);
  }
}

}  // namespace
}  // namespace weightloom
