// Plans that ask for what is known of a model: the base model's prefix, ties.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kModels = R"({"format": "weightloom.models/1", "transformers": "0",
"auto": {"AutoModel": {"toy": "Base"}},
"classes": {
"Head": {"model_type": "toy", "base_model_prefix": "m", "submodels": [{"path": "m", "class": "Base"}], "tied": {"h.weight": "m.e.weight"}, "tie_word_embeddings": true, "names": ["h.weight"]},
"Base": {"model_type": "toy", "base_model_prefix": "m", "names": ["e.weight"]}
}})";

using Sources = std::vector<std::pair<std::string, std::string>>;

/// (target, its first source) of each.
Sources sources_of(const CopyProgram& program) {
  Sources sources;
  for (const ProgramTarget& target : program.targets()) {
    const SourceId source = target.regions.front().source;
    sources.emplace_back(target.name, program.sources()[static_cast<size_t>(source)].name);
  }
  return sources;
}

class ConversionModelTest : public ::testing::Test {
 protected:
  ConversionModelTest() { registry_.set_models(ModelCatalog::parse(kModels, "models.json")); }

  void write(const std::string& folder, const std::vector<std::string>& names,
             const std::string& record = "") const {
    std::vector<TensorSpec> specs;
    for (const std::string& name : names) specs.push_back({name, DType::U8, {2}});
    Folder files = checkpoint_files(specs);
    files["config.json"] = R"({"model_type": "toy", "architectures": ["Head"]})";
    if (!record.empty()) files[std::string(kProvenanceName)] = record;
    write_folder(folder_ / folder, files);
  }

  Conversion plan(const std::string& folder, Side to, const Selection& more = {}) const {
    Selection selection = more;
    selection.to = to;
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), folder_ / folder),
                           selection, registry_);
  }

  TemporaryFolder folder_;
  Registry registry_;
};

TEST_F(ConversionModelTest, ABaseCheckpointGetsThePrefixAndWhatTheModelLacksStays) {
  write("hub", {"e.weight", "m.x", "x"});
  EXPECT_THAT(sources_of(plan("hub", Side::runtime).program),
              ElementsAre(Pair("m.e.weight", "e.weight"), Pair("m.x", "m.x"), Pair("x", "x")));
}

/// Names that the model does not have must not be taken for its own on the way back.
TEST_F(ConversionModelTest, TheWayBackTakesOffOnlyThePrefixesThatWerePutOn) {
  write("hub", {"e.weight", "m.x", "x"});
  const Conversion there = plan("hub", Side::runtime);
  EXPECT_FALSE(there.provenance.files.empty());
  write("runtime", {"m.e.weight", "m.x", "x"}, format_provenance(there.provenance));
  const Conversion back = plan("runtime", Side::hub);
  EXPECT_THAT(back.findings, IsEmpty());
  EXPECT_THAT(sources_of(back.program),
              ElementsAre(Pair("e.weight", "m.e.weight"), Pair("m.x", "m.x"), Pair("x", "x")));
}

TEST_F(ConversionModelTest, WithoutTheOriginalsTheWayBackSaysThatPrefixesStay) {
  write("hub", {"e.weight", "x"});
  Selection part;
  part.exclude = {"x"};
  const Conversion there = plan("hub", Side::runtime, part);
  write("runtime", {"m.e.weight"}, format_provenance(there.provenance));
  const Conversion back = plan("runtime", Side::hub);
  ASSERT_EQ(back.findings.size(), 1U);
  EXPECT_EQ(back.findings.front().code, "prefix_kept");
}

TEST_F(ConversionModelTest, ATensorIsMadeUnderTheTiedNameThatIsWanted) {
  write("hub", {"m.e.weight"});
  Selection wanting;
  wanting.expected = Expected{};
  wanting.expected->tensors = {{"h.weight", {}, {}}};
  const Conversion made = plan("hub", Side::runtime, wanting);
  EXPECT_THAT(made.findings, IsEmpty());
  EXPECT_THAT(made.tied, IsEmpty());
  EXPECT_THAT(sources_of(made.program), ElementsAre(Pair("h.weight", "m.e.weight")));
}

TEST_F(ConversionModelTest, ATiedNameMustFitToo) {
  write("hub", {"m.e.weight"});
  Selection wanting;
  wanting.expected = Expected{};
  wanting.expected->tensors = {{"h.weight", {}, Shape{3}}, {"m.e.weight", {}, Shape{2}}};
  const Conversion made = plan("hub", Side::runtime, wanting);
  ASSERT_EQ(made.findings.size(), 1U);
  EXPECT_EQ(made.findings.front().code, "mismatched");
  EXPECT_EQ(made.findings.front().tensor, "h.weight");
}

TEST_F(ConversionModelTest, ATieWhoseTensorIsLeftOutIsTold) {
  write("hub", {"m.e.weight", "x"});
  Selection part;
  part.exclude = {"m.*"};
  const Conversion made = plan("hub", Side::runtime, part);
  EXPECT_THAT(made.tied, IsEmpty());
  ASSERT_EQ(made.findings.size(), 1U);
  EXPECT_EQ(made.findings.front().code, "tied_left_out");
}

TEST_F(ConversionModelTest, WhatTheSelectionLeavesOutIsNeitherMissingNorUnexpected) {
  write("hub", {"m.e.weight", "x"});
  Selection part;
  part.expected = Expected{};
  part.expected->tensors = {{"m.e.weight", {}, {}}, {"y", {}, {}}};
  part.exclude = {"x", "y"};
  const Conversion made = plan("hub", Side::runtime, part);
  EXPECT_THAT(made.findings, IsEmpty());
  EXPECT_THAT(sources_of(made.program), ElementsAre(Pair("m.e.weight", "m.e.weight")));
}

TEST_F(ConversionModelTest, AClassThatNobodyKnowsIsRefused) {
  write("hub", {"e.weight"});
  Selection misspelt;
  misspelt.architecture = "Haed";
  try {
    plan("hub", Side::runtime, misspelt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mapping);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("did you mean Head?"));
  }
}

}  // namespace
}  // namespace weightloom::testing
