// What --rename does to a conversion: names, sides, the record, the source's files.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConversionRenameTest : public ::testing::Test {
 protected:
  Conversion plan(const Folder& files, std::vector<Rename> renames,
                  std::optional<Side> to = std::nullopt) const {
    remove_all(system_calls(), folder_ / "m");
    write_folder(folder_ / "m", files);
    Selection selection;
    selection.renames = std::move(renames);
    selection.to = to;
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), folder_ / "m"),
                           selection, Registry::built_in());
  }

  TemporaryFolder folder_;
};

const std::vector<TensorSpec> kTwo = {{"a.w", DType::U8, {3}}, {"b.w", DType::U8, {4}}};

std::vector<std::string> names_of(const CopyProgram& program) {
  std::vector<std::string> names;
  for (const ProgramTarget& target : program.targets()) names.push_back(target.name);
  return names;
}

std::vector<std::string> codes(const Conversion& conversion) {
  std::vector<std::string> codes;
  for (const Finding& finding : conversion.findings) codes.push_back(finding.code);
  return codes;
}

/// Specs of the tiny Mixtral model, all names behind "module.".
Folder wrapped_mixtral() {
  std::vector<TensorSpec> specs = hub_specs();
  for (TensorSpec& spec : specs) spec.name = "module." + spec.name;
  Folder files = checkpoint_files(specs, 150);
  files["config.json"] = config_of({});
  return files;
}

const std::vector<Rename> kUnwrap = {{"^module\\.", ""}};

TEST_F(ConversionRenameTest, NamesChangeWithoutAConfigAndTheFilesCanBeKept) {
  const Conversion made = plan(checkpoint_files(kTwo), {{"^a", "z"}});
  EXPECT_FALSE(made.is_refused(false));
  EXPECT_THAT(names_of(made.program), ElementsAre("b.w", "z.w"));
  EXPECT_THAT(made.kept_names, ElementsAre("z.w", "b.w"));  // in the source's order
  EXPECT_EQ(made.renamed, 1);
  EXPECT_EQ(made.passed_through, 1);
  EXPECT_EQ(made.provenance.layout, "unknown");
  EXPECT_THAT(made.provenance.files, IsEmpty());
}

TEST_F(ConversionRenameTest, OneThatMatchesNothingIsRefusedWithANextStep) {
  const Conversion made = plan(checkpoint_files(kTwo), {{"^c", "z"}});
  EXPECT_THAT(codes(made), Contains("rename_unmatched"));
  const Error error = refusal_of(made.findings, true);
  EXPECT_STREQ(error.what(), "--rename '^c=z' matches no tensor");
  EXPECT_THAT(error.next_step(), HasSubstr("correct the pattern"));
  EXPECT_THAT(made.kept_names, IsEmpty());
}

TEST_F(ConversionRenameTest, TwoTensorsOfOneNameAreRefused) {
  const Conversion made = plan(checkpoint_files(kTwo), {{"^a", "b"}});
  EXPECT_THAT(codes(made), Contains("duplicate_target"));
  EXPECT_TRUE(made.is_refused(true));
}

TEST_F(ConversionRenameTest, AMappingWorksOnTheNewNames) {
  const Conversion made = plan(wrapped_mixtral(), kUnwrap, Side::runtime);
  EXPECT_FALSE(made.is_refused(false));
  EXPECT_EQ(made.from, Side::hub);
  EXPECT_THAT(names_of(made.program), Contains("model.layers.0.mlp.experts.gate_up_proj"));
  EXPECT_THAT(made.kept_names, IsEmpty());
}

TEST_F(ConversionRenameTest, TheRecordLeadsFromTheOriginalNames) {
  const Conversion made = plan(wrapped_mixtral(), kUnwrap, Side::runtime);
  EXPECT_EQ(made.provenance.layout, "runtime");
  EXPECT_FALSE(made.provenance.files.empty());
  ASSERT_FALSE(made.provenance.mapping.empty());
  const auto* first = std::get_if<WeightRenaming>(&made.provenance.mapping.transforms().front());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->source_patterns, std::vector<std::string>{"^module\\."});
  EXPECT_EQ(made.provenance.fired.front(), 0);
}

TEST_F(ConversionRenameTest, ARenameThatWouldActTwiceIsRecordedToo) {
  std::vector<TensorSpec> specs = hub_specs();
  for (TensorSpec& spec : specs) {
    if (spec.name.starts_with("model.")) spec.name.erase(0, 6);
  }
  Folder files = checkpoint_files(specs);
  files["config.json"] = config_of({});
  // Run once more on what the mapping made it would match again; it runs once.
  const Conversion twice =
      plan(files, {{"layers", "model.layers"}, {"^norm", "model.norm"}}, Side::runtime);
  EXPECT_FALSE(twice.is_refused(false));
  EXPECT_FALSE(twice.provenance.files.empty());
  const auto* first = std::get_if<WeightRenaming>(&twice.provenance.mapping.transforms().front());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->source_patterns, std::vector<std::string>{"layers"});
}

TEST_F(ConversionRenameTest, ARecordOfNamesThatWereChangedIsNotKept) {
  Folder files = wrapped_mixtral();
  const Conversion runtime = plan(files, kUnwrap, Side::runtime);
  Folder made = checkpoint_files({{"x", DType::U8, {1}}});
  made["weightloom.json"] = format_provenance(runtime.provenance);
  EXPECT_EQ(plan(made, {}).provenance.layout, "runtime");
  EXPECT_EQ(plan(made, {{"x", "y"}}).provenance.layout, "unknown");
}

TEST_F(ConversionRenameTest, IncludeSeesTheNewNames) {
  write_folder(folder_ / "m", checkpoint_files(kTwo));
  Selection selection;
  selection.renames = {{"^a", "z"}};
  selection.include = {"z.*"};
  const Conversion made =
      plan_conversion(system_calls(), Checkpoint::open(system_calls(), folder_ / "m"), selection,
                      Registry::built_in());
  EXPECT_THAT(names_of(made.program), ElementsAre("z.w"));
  EXPECT_THAT(made.kept_names, IsEmpty());
}

}  // namespace
}  // namespace weightloom::testing
