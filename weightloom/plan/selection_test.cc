#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/mapping_choice.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Registry& registry() {
  static const Registry built_in = Registry::built_in();
  return built_in;
}

class SelectionTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  /// A folder "m" of one-byte tensors of these names, with other files.
  Checkpoint checkpoint(const std::vector<std::string>& names, const Folder& others = {}) const {
    std::vector<TensorSpec> specs;
    for (const std::string& name : names) specs.push_back({name, DType::U8, {1}});
    Folder files = checkpoint_files(specs);
    files.insert(others.begin(), others.end());
    remove_all(system_calls(), at("m"));
    write_folder(at("m"), files);
    return Checkpoint::open(system_calls(), at("m"));
  }

  MappingChoice choose(const Folder& others, const std::string& wanted, bool must_know) const {
    const Checkpoint m = checkpoint({"a"}, others);
    return choose_mapping(system_calls(), m, read_side_facts(system_calls(), m), wanted, registry(),
                          must_know);
  }

  Side detect(const std::vector<std::string>& names, const Folder& others = {}) const {
    const Checkpoint m = checkpoint(names, others);
    return detect_side(m, read_side_facts(system_calls(), m), *registry().find("mixtral"));
  }

  TemporaryFolder folder_;
};

Folder config(const std::string& text) { return {{"config.json", text}}; }

std::string record(const std::string& layout) {
  Provenance provenance;
  provenance.layout = layout;
  provenance.mapping = *registry().find("mixtral");
  return format_provenance(provenance);
}

TEST_F(SelectionTest, AutoTakesTheMappingOfTheModelType) {
  const MappingChoice choice = choose(config(R"({"model_type": "mixtral"})"), "auto", true);
  EXPECT_EQ(choice.label, "mixtral");
  EXPECT_EQ(choice.mapping.transforms().size(), registry().find("mixtral")->transforms().size());
  EXPECT_THAT(choice.findings, IsEmpty());
}

TEST_F(SelectionTest, AutoKnowsModelTypesThatNeedNone) {
  for (const char* type : {"bert", "llama"}) {
    const auto choice =
        choose(config(std::string(R"({"model_type": ")") + type + "\"}"), "auto", true);
    EXPECT_EQ(choice.label, "plain");
    EXPECT_TRUE(choice.mapping.empty());
  }
}

TEST_F(SelectionTest, AutoRefusesWhatItMustKnowAndOnlyTellsOtherwise) {
  const std::pair<Folder, std::string> unknowns[] = {
      {config(R"({"model_type": "martian"})"), "model_type 'martian' is neither registered"},
      {config(R"({"architectures": ["A"]})"), "config.json: no model_type"},
      {{}, "no config.json, so the model type is unknown"}};
  for (const auto& [others, message] : unknowns) {
    const auto error = refusal_of([&] { choose(others, "auto", true); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::mapping);
    EXPECT_THAT(error->what(), HasSubstr(message));
    EXPECT_THAT(error->next_step(), HasSubstr("--mapping none"));
    const MappingChoice choice = choose(others, "auto", false);
    EXPECT_EQ(choice.label, "unknown");
    EXPECT_TRUE(choice.mapping.empty());
    ASSERT_EQ(choice.findings.size(), 1U);
    EXPECT_EQ(choice.findings[0].severity, Severity::report);
    EXPECT_EQ(choice.findings[0].code, "unknown_mapping");
    EXPECT_THAT(choice.findings[0].message, HasSubstr(message));
  }
}

TEST_F(SelectionTest, AutoBelievesTheRecordBeforeTheConfig) {
  const MappingChoice choice = choose(
      {{"config.json", R"({"model_type": "martian"})"}, {"weightloom.json", record("runtime")}},
      "auto", true);
  EXPECT_EQ(choice.label, "mixtral");
}

TEST_F(SelectionTest, NoneIsNoneWhateverTheConfigSays) {
  const auto choice = choose(config(R"({"model_type": "mixtral"})"), "none", true);
  EXPECT_EQ(choice.label, "none");
  EXPECT_TRUE(choice.mapping.empty());
}

TEST_F(SelectionTest, ANameOrAliasNamesAMapping) {
  EXPECT_EQ(choose({}, "mixtral", true).label, "mixtral");
  EXPECT_EQ(choose({}, "minimax", true).label, "mixtral");
  EXPECT_EQ(choose({}, "bert", true).label, "plain");
}

TEST_F(SelectionTest, AMisspeltNameIsRefusedWithTheNearOnes) {
  const auto error = refusal_of([&] { choose({}, "mixtrl", false); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mapping);
  EXPECT_THAT(error->what(), HasSubstr("no mapping is called 'mixtrl'; did you mean mixtral"));
  EXPECT_THAT(error->next_step(), HasSubstr("'weightloom mappings' lists those there are"));
}

TEST_F(SelectionTest, APathThatEndsInJsonIsAFile) {
  write_text(at("my.json"), R"({"format": "weightloom.mapping/1", "name": "mine", "transforms": [
      {"type": "WeightRenaming", "source_patterns": ["a"], "target_patterns": ["b"]}]})");
  EXPECT_EQ(choose({}, at("my.json"), true).label, "mine");
  EXPECT_EQ(refusal_of([&] { choose({}, at("no.json"), true); }).value().code(),
            ErrorCode::not_found);
  write_text(at("bad.json"), "{}");
  EXPECT_EQ(refusal_of([&] { choose({}, at("bad.json"), true); }).value().code(),
            ErrorCode::mapping);
}

TEST_F(SelectionTest, SideFilesThatAreBrokenAreRefusedByName) {
  for (const char* name : {"config.json", "weightloom.json"}) {
    const Checkpoint m = checkpoint({"a"}, {{name, "{"}});
    const auto error = refusal_of([&] { read_side_facts(system_calls(), m); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::format);
    EXPECT_THAT(error->what(), HasSubstr(name));
  }
}

TEST_F(SelectionTest, ASingleFileHasTheConfigBesideItButNoRecord) {
  checkpoint({"a"}, {{"config.json", R"({"model_type": "mixtral"})"}, {"weightloom.json", "{"}});
  const Checkpoint file = Checkpoint::open(system_calls(), at("m/model.safetensors"));
  const SideFacts facts = read_side_facts(system_calls(), file);
  EXPECT_EQ(facts.config.model_type(), "mixtral");
  EXPECT_EQ(facts.config_json, R"({"model_type": "mixtral"})");
  EXPECT_FALSE(facts.record);
}

TEST_F(SelectionTest, TheSideIsThatOfTheNamesPatternsMatch) {
  EXPECT_EQ(detect({"a.block_sparse_moe.gate.weight", "x"}), Side::hub);
  EXPECT_EQ(detect({"a.mlp.experts.gate_up_proj", "x"}), Side::runtime);
}

TEST_F(SelectionTest, NamesOfBothOrNeitherSideTellNothing) {
  EXPECT_EQ(detect({"x", "model.norm.weight"}), Side::unknown);
  EXPECT_EQ(detect({"a.block_sparse_moe.gate.weight", "a.mlp.experts.gate_up_proj"}),
            Side::unknown);
}

TEST_F(SelectionTest, TheRecordDecidesTheSide) {
  const std::vector<std::string> hub_names{"a.block_sparse_moe.gate.weight"};
  EXPECT_EQ(detect(hub_names, {{"weightloom.json", record("runtime")}}), Side::runtime);
  EXPECT_EQ(detect({"a.mlp.gate"}, {{"weightloom.json", record("hub")}}), Side::hub);
  EXPECT_EQ(detect(hub_names, {{"weightloom.json", record("unknown")}}), Side::hub);
}

TEST_F(SelectionTest, ExcludeWinsOverInclude) {
  Selection selection;
  EXPECT_TRUE(is_selected(selection, "a.b"));
  EXPECT_FALSE(selection.is_partial());
  selection.include = {"a.*", "c"};
  EXPECT_TRUE(is_selected(selection, "a.b"));
  EXPECT_TRUE(is_selected(selection, "c"));
  EXPECT_FALSE(is_selected(selection, "d"));
  selection.exclude = {"*.b"};
  EXPECT_FALSE(is_selected(selection, "a.b"));
  EXPECT_TRUE(is_selected(selection, "a.c"));
  EXPECT_TRUE(selection.is_partial());
}

}  // namespace
}  // namespace weightloom::testing
