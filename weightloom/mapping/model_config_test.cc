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

TEST(ModelConfig, ObjectsAndListsOfStringsAreReadWhereTheyStand) {
  const auto config = ModelConfig::parse(
      R"({"q": {"b.c": {"n": 1.5}, "a": ["x", "y"], "mixed": ["x", 1], "n": 3}})", "config.json");
  const auto object = config.object_at("q");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->keys(), (std::vector<std::string>{"a", "b.c", "mixed", "n"}));
  EXPECT_EQ(object->texts_at("a"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(object->texts_at("mixed"), std::nullopt);
  EXPECT_EQ(object->texts_at("n"), std::nullopt);
  EXPECT_EQ(object->number_at("n"), 3.0);
  EXPECT_EQ(object->number_at("a"), std::nullopt);
  ASSERT_TRUE(object->member("b.c"));
  EXPECT_EQ(object->member("b.c")->number_at("n"), 1.5);
  EXPECT_FALSE(object->member("a"));
  EXPECT_FALSE(config.object_at("q.a"));
  EXPECT_FALSE(ModelConfig().object_at("q"));
  EXPECT_TRUE(ModelConfig().keys().empty());
  EXPECT_EQ(config, ModelConfig::parse(R"({"q": {"a": ["x", "y"], "n": 3, "mixed": ["x", 1],)"
                                       R"( "b.c": {"n": 1.5}}})",
                                       "other"));
  EXPECT_NE(config, ModelConfig());
}

}  // namespace
}  // namespace weightloom
