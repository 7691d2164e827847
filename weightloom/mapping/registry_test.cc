#include "weightloom/mapping/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mapping named(const std::string& name, const std::string& aliases = "[]") {
  return Mapping::parse(R"({"format": "weightloom.mapping/1", "name": ")" + name +
                            R"(", "aliases": )" + aliases + R"(, "transforms": []})",
                        "m.json");
}

TEST(BuiltIn, HasTheShippedMappings) {
  const Registry registry = Registry::built_in();
  EXPECT_THAT(registry.names(), ElementsAre("legacy", "longcat_flash", "mixtral", "qwen2_moe"));
  for (const char* model_type : {"deepseek_v2", "deepseek_v3", "qwen3_moe", "olmoe", "glm4_moe"}) {
    ASSERT_NE(registry.find(model_type), nullptr) << model_type;
    EXPECT_EQ(registry.find(model_type)->name(), "qwen2_moe");
  }
  EXPECT_EQ(registry.find("minimax")->name(), "mixtral");
  EXPECT_EQ(registry.find("llama"), nullptr);
}

TEST(BuiltIn, KnowsPlainTypes) {
  const Registry registry = Registry::built_in();
  for (const char* plain : {"bert", "llama", "qwen2", "qwen3", "gemma3_text"}) {
    EXPECT_TRUE(registry.is_plain(plain)) << plain;
  }
  for (const char* converted : {"mixtral", "deepseek_v3", "llava", "vit", "nonsense", ""}) {
    EXPECT_FALSE(registry.is_plain(converted)) << converted;
  }
}

TEST(BuiltIn, EveryMappingHasAWayBack) {
  const Registry registry = Registry::built_in();
  for (const auto& name : registry.names()) {
    EXPECT_NO_THROW((void)registry.find(name)->reversed()) << name;
  }
}

TEST(Registry, SuggestsNamesAndAliases) {
  const Registry registry = Registry::built_in();
  EXPECT_THAT(registry.similar("mixtrall", 1), ElementsAre("mixtral"));
  EXPECT_THAT(registry.similar("deepseek_v4", 2), ElementsAre("deepseek_v2", "deepseek_v3"));
  EXPECT_THAT(registry.similar("zzzzzz"), ElementsAre());
}

TEST(Registry, RefusesATakenNameUnlessToldToOverwrite) {
  Registry registry;
  registry.add(named("a", R"(["b"])"));
  try {
    registry.add(named("c", R"(["b"])"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mapping);
    EXPECT_THAT(error.what(), HasSubstr("mapping 'c': the name 'b' is taken by mapping 'a'"));
  }
  EXPECT_EQ(registry.find("c"), nullptr);
  registry.add(named("c", R"(["b"])"), true);
  EXPECT_EQ(registry.find("b")->name(), "c");
  EXPECT_EQ(registry.find("a")->name(), "a");
}

TEST(Registry, OverwritingAMappingForgetsItsAliases) {
  Registry registry;
  registry.add(named("a", R"(["b"])"));
  registry.add(named("a"), true);
  EXPECT_EQ(registry.find("b"), nullptr);
}

TEST(Registry, RefusesPlainListsOfAnotherForm) {
  Registry registry;
  EXPECT_THROW(registry.add_plain(R"({"format": "x", "model_types": []})", "p.json"), Error);
  EXPECT_THROW(registry.add_plain(R"({"format": "weightloom.plain/1", "types": []})", "p"), Error);
  registry.add_plain(R"({"format": "weightloom.plain/1", "model_types": ["mine"]})", "p.json");
  EXPECT_TRUE(registry.is_plain("mine"));
}

}  // namespace
}  // namespace weightloom
