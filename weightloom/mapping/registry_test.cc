#include "weightloom/mapping/registry.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/embedded_mappings_internal.h"

namespace weightloom {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Mapping named(const std::string& name, const std::string& aliases = "[]") {
  return Mapping::parse(R"({"format": "weightloom.mapping/1", "name": ")" + name +
                            R"(", "aliases": )" + aliases + R"(, "transforms": []})",
                        "m.json");
}

TEST(BuiltIn, HasTheShippedMappings) {
  const Registry registry = Registry::built_in();
  for (const char* name : {"legacy", "longcat_flash", "mixtral", "qwen2_moe", "LlavaModel"}) {
    EXPECT_THAT(registry.names(), Contains(name));
    EXPECT_EQ(registry.find(name)->name(), name);
  }
  for (const char* model_type : {"deepseek_v2", "deepseek_v3", "qwen3_moe", "olmoe", "glm4_moe"}) {
    ASSERT_NE(registry.find(model_type), nullptr) << model_type;
    EXPECT_EQ(registry.find(model_type)->name(), "qwen2_moe");
    EXPECT_THAT(registry.names(), Not(Contains(model_type)));
  }
  EXPECT_EQ(registry.find("minimax")->name(), "mixtral");
  EXPECT_EQ(registry.find("llama"), nullptr);
}

TEST(BuiltIn, KnowsNamesAndAliasesAsTheFilesHaveThem) {
  const Registry registry = Registry::built_in();
  int files = 0;
  for (const auto& file : embedded_mappings()) {
    if (file.mapping.empty()) continue;
    const Mapping parsed = Mapping::parse(file.text, file.file);
    EXPECT_EQ(file.file, parsed.name() + ".json");
    EXPECT_EQ(registry.find(parsed.name())->to_json(), parsed.to_json());
    for (const auto& alias : parsed.aliases()) {
      ASSERT_TRUE(registry.contains(alias)) << alias;
      EXPECT_EQ(registry.find(alias)->name(), parsed.name());
    }
    ++files;
  }
  EXPECT_GT(files, 100);
  EXPECT_EQ(std::ssize(registry.names()), files);
}

TEST(BuiltIn, MappingsAreWrittenAsTheirFilesAre) {
  for (const auto& file : embedded_mappings()) {
    if (file.mapping.empty()) continue;
    EXPECT_EQ(Mapping::parse(file.text, file.file).to_json(), file.text) << file.file;
  }
}

TEST(BuiltIn, ParsesAMappingOnceForAllCopiesAndThreads) {
  const Registry registry = Registry::built_in();
  std::vector<const Mapping*> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&each] { each = Registry::built_in().find("hy_v4"); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(found, Each(registry.find("hy_v4")));
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

TEST(BuiltIn, EveryMappingHasAWayBackButForOneRenaming) {
  const Registry registry = Registry::built_in();
  for (const auto& name : registry.names()) {
    const Mapping& mapping = *registry.find(name);
    const Mapping two_way = mapping.without_one_way_renamings();
    EXPECT_NO_THROW((void)two_way.reversed()) << name;
    // Its source collects the same tensor from every layer.
    const int64_t one_way = name == "esm" ? 1 : 0;
    EXPECT_EQ(std::ssize(mapping.transforms()) - std::ssize(two_way.transforms()), one_way) << name;
  }
}

TEST(Registry, SuggestsNamesAndAliases) {
  const Registry registry = Registry::built_in();
  EXPECT_THAT(registry.similar("mixtrall", 1), ElementsAre("mixtral"));
  EXPECT_THAT(registry.similar("deepseek_v5", 2), ElementsAre("deepseek_v2", "deepseek_v3"));
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

TEST(Registry, OverwritingANameLeavesTheOthersOfTheMapping) {
  Registry registry;
  registry.add(named("a", R"(["b"])"));
  registry.add(Mapping("a", {PrefixChange{"model", ""}}), true);
  EXPECT_EQ(registry.find("a")->transforms().size(), 1);
  ASSERT_NE(registry.find("b"), nullptr);
  EXPECT_TRUE(registry.find("b")->empty());
  EXPECT_THAT(registry.names(), ElementsAre("a"));
}

TEST(Registry, KnowsWhatItsUserRegistered) {
  Registry registry = Registry::built_in();
  registry.register_checkpoint_conversion_mapping("mixtral", {}, true);
  registry.add(named("mine", R"(["MineModel"])"));
  for (const char* own : {"mixtral", "mine", "MineModel"}) {
    EXPECT_TRUE(registry.is_user_registered(own)) << own;
  }
  for (const char* other : {"minimax", "qwen2_moe", "nonsense", ""}) {
    EXPECT_FALSE(registry.is_user_registered(other)) << other;
  }
  EXPECT_FALSE(Registry::built_in().is_user_registered("mixtral"));
  EXPECT_FALSE(Registry::built_in().find("mixtral")->empty());
}

ModelConfig quantised_by(const std::string& method) {
  return ModelConfig::parse(R"({"quantization_config": {"quant_method": ")" + method + R"("}})",
                            "config.json");
}

TEST(Registry, HasTheQuantisersThatWereAdded) {
  Registry registry;
  EXPECT_EQ(registry.find_quantiser("nine"), nullptr);
  registry.add_quantiser("nine", {});
  EXPECT_NE(registry.find_quantiser("nine"), nullptr);
  EXPECT_EQ(registry.find_quantiser(""), nullptr);
  EXPECT_EQ(Registry(registry).find_quantiser("ten"), nullptr);
  EXPECT_NE(Registry(registry).find_quantiser("nine"), nullptr);
  registry.add_quantiser("nine", {}, true);
  try {
    registry.add_quantiser("nine", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mapping);
    EXPECT_THAT(error.what(), HasSubstr("there is a quantiser for quant_method 'nine'"));
  }
  EXPECT_THROW(registry.add_quantiser("", {}), Error);
}

TEST(QuantMethod, IsAsTheConfigSpellsIt) {
  EXPECT_EQ(quant_method_of(quantised_by("nine")), "nine");
  EXPECT_EQ(quant_method_of(quantised_by("fp8")), "fp8");
  EXPECT_EQ(quant_method_of(ModelConfig()), "");
  EXPECT_EQ(quant_method_of(ModelConfig::parse(
                R"({"text_config": {"quantization_config": {"quant_method": "nine"}}})", "c.json")),
            "nine");
}

TEST(QuantisedMapping, HasMoreTransformsBehindItsOwnAndIsRewrittenLast) {
  const Mapping plain("m", {PrefixChange{"model", ""}}, {{"alias"}, {}, {{"_mul", "", {1}}}});
  Quantiser quantiser;
  quantiser.weight_conversions = [](const ModelConfig&) {
    return std::vector<WeightTransform>{PrefixChange{"a", ""}, PrefixChange{"b", ""}};
  };
  quantiser.update_weight_conversions = [](std::vector<WeightTransform> transforms,
                                           const ModelConfig&) {
    std::swap(transforms.front(), transforms.back());
    transforms.pop_back();
    return transforms;
  };
  const Mapping made = quantised_mapping(plain, quantiser, quantised_by("nine"));
  const Mapping wanted("m", {PrefixChange{"b", ""}, PrefixChange{"a", ""}},
                       {{"alias"}, {}, {{"_mul", "", {1}}}});
  EXPECT_EQ(made.to_json(), wanted.to_json());
  EXPECT_EQ(quantised_mapping(plain, {}, ModelConfig()).to_json(), plain.to_json());
}

}  // namespace
}  // namespace weightloom
