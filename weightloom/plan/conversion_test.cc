#include "weightloom/plan/conversion.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/dump.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class ConversionTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  Conversion plan(const Folder& files, const Selection& selection) const {
    remove_all(system_calls(), at("m"));
    write_folder(at("m"), files);
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m")), selection,
                           Registry::built_in());
  }

  TemporaryFolder folder_;
};

Selection to(std::optional<Side> side) {
  Selection selection;
  selection.to = side;
  return selection;
}

std::vector<std::string> names_of(const CopyProgram& program) {
  std::vector<std::string> names;
  for (const ProgramTarget& target : program.targets()) names.push_back(target.name);
  return names;
}

/// "code tensor" of each finding.
std::vector<std::string> found(const Conversion& conversion) {
  std::vector<std::string> texts;
  for (const Finding& finding : conversion.findings) {
    texts.push_back(finding.code + " " + finding.tensor);
  }
  return texts;
}

const std::vector<std::string> kRuntimeNames{"lm_head.weight",
                                             "model.layers.0.mlp.experts.down_proj",
                                             "model.layers.0.mlp.experts.gate_up_proj",
                                             "model.layers.0.mlp.gate.weight", "model.norm.weight"};

std::vector<TensorSpec> runtime_specs() {
  return {{"lm_head.weight", DType::BF16, {5, 4}},
          {"model.layers.0.mlp.experts.down_proj", DType::BF16, {2, 4, 6}},
          {"model.layers.0.mlp.experts.gate_up_proj", DType::BF16, {2, 12, 4}},
          {"model.layers.0.mlp.gate.weight", DType::BF16, {2, 4}},
          {"model.norm.weight", DType::F32, {4}}};
}

std::vector<std::string> hub_names() {
  std::vector<std::string> names;
  for (const TensorSpec& spec : hub_specs()) names.push_back(spec.name);
  std::sort(names.begin(), names.end());
  return names;
}

/// A runtime folder whose record tells the hub files that it was made of.
Folder recorded_runtime(const Conversion& forward) {
  Folder files = checkpoint_files(runtime_specs());
  files["weightloom.json"] = format_provenance(forward.provenance);
  return files;
}

TEST_F(ConversionTest, ToRuntimeIsPlannedFromTheConfig) {
  const Conversion conversion = plan(hub_files(), to(Side::runtime));
  EXPECT_EQ(names_of(conversion.program), kRuntimeNames);
  EXPECT_EQ(conversion.mapping, "mixtral");
  EXPECT_EQ(conversion.from, Side::hub);
  EXPECT_EQ(conversion.to, Side::runtime);
  EXPECT_EQ(conversion.passed_through, 2);
  EXPECT_EQ(conversion.metadata, (Metadata{{"format", "pt"}}));
  EXPECT_FALSE(conversion.is_refused(false));
  EXPECT_EQ(conversion.provenance.layout, "runtime");
  EXPECT_EQ(conversion.provenance.fired, (std::vector<int64_t>{0, 1, 2}));
  ASSERT_EQ(conversion.provenance.files.size(), 1U);
  EXPECT_EQ(conversion.provenance.files[0].name, "model.safetensors");
}

TEST_F(ConversionTest, TheDumpSaysWhichBytesGoWhere) {
  Selection fused = to(Side::runtime);
  fused.include = {"*gate_up_proj"};
  const std::string text = dump(plan(hub_files(), fused).program);
  const size_t target = text.find("target");
  EXPECT_THAT(text, ::testing::StartsWith("source 0 'lm_head.weight' BF16 [5, 4] file 0 "
                                          "'model.safetensors' ["));
  // Sources 1, 3, 4 and 6 are w1 and w3 of both experts, 6 × 4 × 2 bytes each.
  EXPECT_EQ(text.substr(target),
            "target 'model.layers.0.mlp.experts.gate_up_proj' BF16 [2, 12, 4]\n"
            "  0<-s1+0 (48:1<-1)\n"
            "  48<-s3+0 (48:1<-1)\n"
            "  96<-s4+0 (48:1<-1)\n"
            "  144<-s6+0 (48:1<-1)\n");
}

TEST_F(ConversionTest, WithoutATargetSideTheNamesStay) {
  const Conversion conversion = plan(hub_files(), to(std::nullopt));
  EXPECT_EQ(names_of(conversion.program), hub_names());
  EXPECT_EQ(conversion.from, Side::hub);
  EXPECT_EQ(conversion.to, Side::hub);
  EXPECT_EQ(conversion.passed_through, 9);
}

TEST_F(ConversionTest, ToTheSideItIsOnTheNamesStay) {
  EXPECT_EQ(names_of(plan(hub_files(), to(Side::hub)).program), hub_names());
}

TEST_F(ConversionTest, AnUnknownTypeIsReportedUnlessASideIsAsked) {
  const Conversion conversion = plan(checkpoint_files(hub_specs()), to(std::nullopt));
  EXPECT_THAT(found(conversion), ElementsAre("unknown_mapping "));
  EXPECT_FALSE(conversion.is_refused(false));
  EXPECT_EQ(conversion.to, Side::unknown);
  EXPECT_EQ(
      refusal_of([&] { plan(checkpoint_files(hub_specs()), to(Side::runtime)); }).value().code(),
      ErrorCode::mapping);
}

TEST_F(ConversionTest, TheRecordOfWhatIsNotKnownCanBeReadAgain) {
  Selection partial = to(std::nullopt);
  partial.include = {"lm_head*"};
  Selection none = to(Side::runtime);
  none.mapping = "none";
  for (const Selection& selection : {to(std::nullopt), partial, none}) {
    const Conversion conversion = plan(checkpoint_files(hub_specs()), selection);
    const Provenance read =
        parse_provenance(format_provenance(conversion.provenance), "weightloom.json");
    EXPECT_EQ(read.layout, to_string(conversion.to));
    EXPECT_TRUE(read.mapping.empty());
  }
}

TEST_F(ConversionTest, NamesThatTellNoSideAreRefusedWithTheFlag) {
  Folder files = checkpoint_files({{"x", DType::U8, {1}}});
  files["config.json"] = config_of({});
  const auto error = refusal_of([&] { plan(files, to(Side::runtime)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_THAT(error->next_step(), HasSubstr("--from hub"));
  Selection told = to(Side::runtime);
  told.from = Side::hub;
  EXPECT_EQ(names_of(plan(files, told).program), (std::vector<std::string>{"x"}));
}

TEST_F(ConversionTest, IncludeAndExcludeChooseTargets) {
  Selection selection = to(Side::runtime);
  selection.include = {"model.*"};
  selection.exclude = {"*.gate.*"};
  const Conversion conversion = plan(hub_files(), selection);
  EXPECT_EQ(
      names_of(conversion.program),
      (std::vector<std::string>{"model.layers.0.mlp.experts.down_proj",
                                "model.layers.0.mlp.experts.gate_up_proj", "model.norm.weight"}));
  EXPECT_EQ(conversion.deselected, 2);
  EXPECT_THAT(conversion.provenance.files, IsEmpty());
}

TEST_F(ConversionTest, NothingSelectedIsAnError) {
  Selection selection = to(std::nullopt);
  selection.include = {"nothing.*"};
  const Conversion conversion = plan(hub_files(), selection);
  EXPECT_THAT(found(conversion), Contains("nothing_selected "));
  EXPECT_TRUE(conversion.is_refused(true));
  EXPECT_THAT(refusal_of(conversion.findings, false).what(),
              HasSubstr("--include and --exclude leave none of 9 targets"));
}

TEST_F(ConversionTest, AllFaultsAreFoundAtOnce) {
  auto specs = hub_specs({.layers = 2, .experts = 2});
  std::erase_if(specs, [](const TensorSpec& spec) {
    return spec.name == "model.layers.0.block_sparse_moe.experts.1.w3.weight" ||
           spec.name == "model.layers.1.block_sparse_moe.experts.0.w2.weight";
  });
  Folder files = checkpoint_files(specs);
  files["config.json"] = config_of({});
  const Conversion conversion = plan(files, to(Side::runtime));
  EXPECT_TRUE(conversion.is_refused(true));
  std::string messages;
  for (const Finding& finding : conversion.findings) messages += finding.message + "\n";
  EXPECT_THAT(messages, HasSubstr("model.layers.0.block_sparse_moe.experts.1.w3.weight"));
  EXPECT_THAT(messages, HasSubstr("model.layers.1.block_sparse_moe.experts.0.w2.weight"));
  EXPECT_THAT(names_of(conversion.program),
              IsSupersetOf({"lm_head.weight", "model.layers.1.mlp.experts.gate_up_proj"}))
      << "what is sound is planned all the same";
}

TEST_F(ConversionTest, BackByTheRecordGivesTheFilesAsTheyWere) {
  const Conversion forward = plan(hub_files(250), to(Side::runtime));
  const std::string index = hub_files(250)["model.safetensors.index.json"];
  const Conversion back = plan(recorded_runtime(forward), to(Side::hub));
  EXPECT_EQ(names_of(back.program), hub_names());
  EXPECT_FALSE(back.is_refused(false));
  EXPECT_EQ(back.passed_through, 2);
  ASSERT_EQ(back.original_files.size(), 2U);
  EXPECT_EQ(back.original_files[1].name, "model-00002-of-00002.safetensors");
  EXPECT_EQ(back.original_index, std::pair(std::string("model.safetensors.index.json"), index));
}

TEST_F(ConversionTest, BackByTheRecordInPartReproducesNoFiles) {
  const Conversion forward = plan(hub_files(), to(Side::runtime));
  Selection partial = to(Side::hub);
  partial.include = {"*experts.1.*"};
  const Conversion back = plan(recorded_runtime(forward), partial);
  EXPECT_EQ(back.program.targets().size(), 3U);
  EXPECT_THAT(back.original_files, IsEmpty());
}

TEST_F(ConversionTest, BackByTheRecordFindsEveryDisagreementWithIt) {
  const Conversion forward = plan(hub_files(), to(Side::runtime));
  auto specs = runtime_specs();
  specs[0].name = "renamed.weight";
  specs[3].shape = {4, 2};
  specs[4].dtype = DType::BF16;
  Folder files = checkpoint_files(specs);
  files["weightloom.json"] = format_provenance(forward.provenance);
  const Conversion back = plan(files, to(Side::hub));
  EXPECT_THAT(found(back),
              ElementsAre("shape_mismatch model.layers.0.mlp.gate.weight",
                          "shape_mismatch model.norm.weight", "not_in_record renamed.weight",
                          "missing_source lm_head.weight"));
  EXPECT_TRUE(back.is_refused(true));
}

TEST_F(ConversionTest, ARecordWhoseFilesLeadOutOfTheFolderIsRefused) {
  Conversion forward = plan(hub_files(250), to(Side::runtime));
  const Provenance sound = forward.provenance;
  for (const char* name : {"../x.safetensors", "/etc/x", "a/../../x", "", "a\\b"}) {
    forward.provenance = sound;
    forward.provenance.files[0].name = name;
    EXPECT_EQ(refusal_of([&] { plan(recorded_runtime(forward), to(Side::hub)); }).value().code(),
              ErrorCode::format);
    forward.provenance = sound;
    forward.provenance.index->first = name;
    EXPECT_EQ(refusal_of([&] { plan(recorded_runtime(forward), to(Side::hub)); }).value().code(),
              ErrorCode::format);
  }
}

TEST_F(ConversionTest, BackByRulesGivesTheHubTensors) {
  Folder files = checkpoint_files(runtime_specs());
  files["config.json"] = config_of({});
  const Conversion back = plan(files, to(Side::hub));
  EXPECT_EQ(back.from, Side::runtime);
  EXPECT_EQ(names_of(back.program), hub_names());
  EXPECT_FALSE(back.is_refused(false));
  EXPECT_THAT(back.original_files, IsEmpty());
}

TEST_F(ConversionTest, BackByRulesProvesThatForwardsGivesWhatIsThere) {
  auto specs = runtime_specs();
  specs.push_back({"z.block_sparse_moe.x", DType::U8, {1}});  // forwards would rename it
  Folder files = checkpoint_files(specs);
  files["config.json"] = config_of({});
  Selection back = to(Side::hub);
  back.from = Side::runtime;
  const Conversion conversion = plan(files, back);
  EXPECT_THAT(found(conversion), ElementsAre("round_trip z.block_sparse_moe.x"));
  EXPECT_TRUE(conversion.is_refused(true));
}

TEST_F(ConversionTest, BackByRulesAppliesOnlyTheRulesThatFired) {
  // No experts: the converters did not fire, so a runtime tensor that looks fused stays.
  Folder hub = checkpoint_files(
      {{"a.block_sparse_moe.gate", DType::U8, {2}}, {"b.experts.down_proj", DType::U8, {2, 1, 1}}});
  hub["config.json"] = config_of({});
  Selection forth = to(Side::runtime);
  forth.from = Side::hub;
  Provenance record = plan(hub, forth).provenance;
  EXPECT_EQ(record.fired, (std::vector<int64_t>{0}));
  record.files.clear();
  Folder runtime = checkpoint_files(
      {{"a.mlp.gate", DType::U8, {2}}, {"b.experts.down_proj", DType::U8, {2, 1, 1}}});
  runtime["weightloom.json"] = format_provenance(record);
  const Conversion back = plan(runtime, to(Side::hub));
  EXPECT_THAT(names_of(back.program),
              ElementsAre("a.block_sparse_moe.gate", "b.experts.down_proj"));
}

TEST_F(ConversionTest, TheOrderOfShardsDoesNotChangeThePlan) {
  Folder files = hub_files(100);
  const std::string straight = dump(plan(files, to(Side::runtime)).program);
  std::string& index = files["model.safetensors.index.json"];
  const Index parsed = parse_index(index, "index");
  std::string map;
  for (size_t i = parsed.weight_map.size(); i-- > 0;) {
    map += "\"" + parsed.weight_map[i].first + "\": \"" + parsed.weight_map[i].second + "\"";
    map += i > 0 ? ", " : "";
  }
  index = "{\"weight_map\": {" + map + "}}";
  EXPECT_EQ(dump(plan(files, to(Side::runtime)).program), straight);
}

TEST_F(ConversionTest, ACopyKeepsTheRecordItFound) {
  const Conversion forward = plan(hub_files(), to(Side::runtime));
  const Folder runtime = recorded_runtime(forward);
  const Conversion copy = plan(runtime, to(std::nullopt));
  EXPECT_EQ(format_provenance(copy.provenance), runtime.at("weightloom.json"));
}

TEST_F(ConversionTest, OriginalsAreNotKeptWhenFilesHoldMoreThanTheCheckpoint) {
  Folder files = hub_files(250);
  const Folder more = checkpoint_files({{"stray", DType::U8, {1}}});
  files["stray.safetensors"] = more.at("model.safetensors");
  EXPECT_EQ(plan(files, to(Side::runtime)).provenance.files.size(), 2U)
      << "a file that the index does not name is no part of it";
  std::string& index = files["model.safetensors.index.json"];
  const size_t at = index.find("    \"lm_head.weight\"");
  index.erase(at, index.find('\n', at) + 1 - at);  // its shard holds it still
  const Conversion conversion = plan(files, to(Side::runtime));
  EXPECT_THAT(conversion.provenance.files, IsEmpty());
  EXPECT_THAT(found(conversion), Contains("unindexed_tensor lm_head.weight"));
}

TEST_F(ConversionTest, ARefusalNamesTheFirstFindingAndCountsTheOthers) {
  const std::vector<Finding> findings{{Severity::report, "r", "", "", "told"},
                                      {Severity::strict, "s", "", "", "strict one"},
                                      {Severity::error, "e", "", "", "an error"}};
  EXPECT_STREQ(refusal_of(findings, false).what(), "strict one (and 1 more)");
  EXPECT_STREQ(refusal_of(findings, true).what(), "an error");
  EXPECT_EQ(refusal_of(findings, true).code(), ErrorCode::plan);
  EXPECT_EQ(refusal_of(findings, true).findings().size(), 3U);
}

}  // namespace
}  // namespace weightloom::testing
