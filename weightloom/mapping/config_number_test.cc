#include "weightloom/mapping/config_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

const ModelConfig kConfig = ModelConfig::parse(
    R"({"heads": 8, "head_dim": 16, "hidden": 130, "big": 4611686018427387904,
        "vision": {"heads": 2, "deep": {"n": 3}}, "text_config": {"experts": 5}})",
    "config.json");

std::optional<int64_t> value(const char* text) { return ConfigNumber(text).value(kConfig); }

TEST(ConfigNumber, IsANumberAKeyOrAPath) {
  EXPECT_EQ(ConfigNumber(7).value(ModelConfig()), 7);
  EXPECT_EQ(value("7"), 7);
  EXPECT_EQ(value("heads"), 8);
  EXPECT_EQ(value("vision.deep.n"), 3);
  EXPECT_EQ(value("experts"), 5);
  EXPECT_EQ(value("vision.experts"), std::nullopt);
  EXPECT_EQ(ConfigNumber("heads").value(kConfig, "vision"), 2);
  EXPECT_EQ(ConfigNumber("experts").value(kConfig, "vision"), std::nullopt);
}

TEST(ConfigNumber, MultipliesAndDividesFromTheLeft) {
  EXPECT_EQ(value("heads*head_dim"), 128);
  EXPECT_EQ(value("heads*head_dim/4"), 32);
  EXPECT_EQ(value("3*hidden/heads"), std::nullopt);  // 390/8 is not whole
  EXPECT_EQ(value("hidden/0"), std::nullopt);
  EXPECT_EQ(value("big*big"), std::nullopt);
}

TEST(ConfigNumber, TakesTheFirstAlternativeThatIsThere) {
  EXPECT_EQ(value("kv_heads*head_dim|hidden|7"), 130);
  EXPECT_EQ(value("none|7"), 7);
  EXPECT_EQ(value("none|nor_this"), std::nullopt);
}

TEST(ConfigNumber, TakesTheDefaultOfTheClassOnlyWhenThereIsAConfig) {
  EXPECT_EQ(ConfigNumber("none|16").value(kConfig, "vision"), 16);
  EXPECT_EQ(ConfigNumber("heads|16").value(kConfig, "vision"), 2);
  EXPECT_EQ(ConfigNumber("none|16").value(ModelConfig()), std::nullopt);
}

TEST(ConfigNumber, RefusesOtherTexts) {
  for (const char* text :
       {"", "a b", "heads+1", "heads*", "|heads", "a|", "*", "9223372036854775808!"}) {
    EXPECT_THROW(ConfigNumber{text}, Error) << text;
  }
}

TEST(ConfigNumber, IsWrittenAsItWasRead) {
  EXPECT_EQ(ConfigNumber(12).to_json(), "12");
  EXPECT_EQ(ConfigNumber("a*b|c").to_json(), R"("a*b|c")");
  EXPECT_TRUE(ConfigNumber("2*3").is_literal());
  EXPECT_FALSE(ConfigNumber("2*n").is_literal());
}

TEST(ConfigNumber, DividesByPositiveNumbersOnly) {
  EXPECT_EQ(value("-9223372036854775808/-1"), std::nullopt);
  EXPECT_EQ(value("heads/-2"), std::nullopt);
}

}  // namespace
}  // namespace weightloom
