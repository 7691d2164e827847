#include "weightloom/mapping/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;

TEST(ModelConfig, WithoutAFileGivesNothing) {
  const ModelConfig none;
  EXPECT_FALSE(none.present());
  EXPECT_EQ(none.model_type(), "");
  EXPECT_EQ(none.integer("num_experts"), std::nullopt);
  EXPECT_EQ(none.text_integer("num_experts"), std::nullopt);
}

TEST(ModelConfig, GivesWhatIsDeclared) {
  const auto config = ModelConfig::parse(
      R"({"model_type": "m", "architectures": ["A", "B"], "heads": 4, "text_config": {"heads": 8, "experts": 3}})",
      "config.json");
  EXPECT_TRUE(config.present());
  EXPECT_EQ(config.model_type(), "m");
  EXPECT_THAT(config.architectures(), ElementsAre("A", "B"));
  EXPECT_EQ(config.integer("heads"), 4);
  EXPECT_EQ(config.integer("heads", "text_config"), 8);
  EXPECT_EQ(config.text_integer("heads"), 4);
  EXPECT_EQ(config.text_integer("experts"), 3);
  EXPECT_EQ(config.integer("experts"), std::nullopt);
}

TEST(ModelConfig, DoesNotTakeOtherKindsForIntegers) {
  const auto config = ModelConfig::parse(
      R"({"a": "4", "b": 4.0, "c": [4], "d": true, "e": 18446744073709551615, "model_type": null})",
      "config.json");
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(config.integer(key), std::nullopt) << key;
  }
  EXPECT_EQ(config.model_type(), "");
}

TEST(ModelConfig, ReadsTheNumbersThatOnlyPythonWrites) {
  const auto config = ModelConfig::parse(
      R"({"limit": [0.0, Infinity], "low": -Infinity, "n": NaN, "text": "NaN \" Infinity", "k": 1})",
      "config.json");
  EXPECT_EQ(config.integer("k"), 1);
}

TEST(ModelConfig, RefusesWhatIsNoObjectOrDoublyKeyed) {
  for (const char* wrong : {"", "[]", "{", R"({"a": 1, "a": 2})"}) {
    try {
      ModelConfig::parse(wrong, "config.json");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      EXPECT_THAT(error.what(), ::testing::StartsWith("config.json: "));
    }
  }
}

}  // namespace
}  // namespace weightloom
