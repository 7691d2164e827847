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
  EXPECT_EQ(none.at("num_experts"), std::nullopt);
  EXPECT_EQ(none.at("num_experts"), std::nullopt);
}

TEST(ModelConfig, GivesWhatIsDeclared) {
  const auto config = ModelConfig::parse(
      R"({"model_type": "m", "architectures": ["A", "B"], "heads": 4, "text_config": {"heads": 8, "experts": 3}})",
      "config.json");
  EXPECT_TRUE(config.present());
  EXPECT_EQ(config.model_type(), "m");
  EXPECT_THAT(config.architectures(), ElementsAre("A", "B"));
  EXPECT_EQ(config.at("heads"), 4);
  EXPECT_EQ(config.at("heads", "text_config"), 8);
  EXPECT_EQ(config.at("text_config.heads"), 8);
  EXPECT_EQ(config.at("experts"), 3);  // of the text model
  EXPECT_EQ(config.at("heads.deeper"), std::nullopt);
  EXPECT_EQ(config.at("experts", "vision_config"), std::nullopt);
}

TEST(ModelConfig, IsTheSubConfigItselfWhenItHasNoSubModels) {
  const auto vision = ModelConfig::parse(R"({"heads": 4})", "config.json");
  EXPECT_EQ(vision.at("heads", "vision_config"), 4);
  const auto composite =
      ModelConfig::parse(R"({"heads": 4, "text_config": {"heads": 8}})", "config.json");
  EXPECT_EQ(composite.at("heads", "vision_config"), std::nullopt);
  const auto with_none =
      ModelConfig::parse(R"({"heads": 4, "vision_config": null})", "config.json");
  EXPECT_EQ(with_none.at("heads", "vision_config"), std::nullopt);
}

TEST(ModelConfig, GivesListsOfIntegers) {
  const auto config = ModelConfig::parse(
      R"({"q": {"block": [128, 64], "mixed": [1, "a"], "none": null}})", "config.json");
  EXPECT_EQ(config.integers_at("q.block"), (std::vector<int64_t>{128, 64}));
  for (const char* path : {"q.mixed", "q.none", "q", "block", "q.block.0"}) {
    EXPECT_EQ(config.integers_at(path), std::nullopt) << path;
  }
}

TEST(ModelConfig, DoesNotTakeOtherKindsForIntegers) {
  const auto config = ModelConfig::parse(
      R"({"a": "4", "b": 4.0, "c": [4], "d": true, "e": 18446744073709551615, "model_type": null})",
      "config.json");
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(config.at(key), std::nullopt) << key;
  }
  EXPECT_EQ(config.model_type(), "");
}

TEST(ModelConfig, ReadsTheNumbersThatOnlyPythonWrites) {
  const auto config = ModelConfig::parse(
      R"({"limit": [0.0, Infinity], "low": -Infinity, "n": NaN, "text": "NaN \" Infinity", "k": 1})",
      "config.json");
  EXPECT_EQ(config.at("k"), 1);
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
