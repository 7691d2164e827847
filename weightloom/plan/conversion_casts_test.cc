// How --dtype is planned, recorded and gone back from.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConversionCastsTest : public ::testing::Test {
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

Selection cast_to(DType dtype, std::vector<std::string> keep, std::optional<Side> side) {
  Selection selection = to(side);
  selection.dtype = dtype;
  selection.keep_dtype = std::move(keep);
  return selection;
}

/// "name DTYPE" of each target.
std::vector<std::string> dtypes_of(const CopyProgram& program) {
  std::vector<std::string> texts;
  for (const ProgramTarget& target : program.targets()) {
    texts.push_back(target.name + " " + std::string(to_string(target.dtype)));
  }
  return texts;
}

TEST_F(ConversionCastsTest, ADTypeReachesFloatsThatAreNotKept) {
  std::vector<TensorSpec> specs{{"bias", DType::F32, {2}},  {"ids", DType::I64, {3}},
                                {"mask", DType::BOOL, {2}}, {"scale", DType::F8_E4M3, {2}},
                                {"w", DType::F32, {2, 2}},  {"x", DType::BF16, {2}}};
  const Conversion conversion =
      plan(checkpoint_files(specs), cast_to(DType::BF16, {"bi*"}, std::nullopt));
  EXPECT_FALSE(conversion.is_refused(false));
  EXPECT_THAT(dtypes_of(conversion.program),
              ElementsAre("bias F32", "ids I64", "mask BOOL", "scale F8_E4M3", "w BF16", "x BF16"));
  EXPECT_EQ(conversion.provenance.casts, (std::vector<CastRule>{{DType::BF16, {"bi*"}}}));
}

TEST_F(ConversionCastsTest, ADTypeThatChangesNothingIsNoCast) {
  const Conversion conversion =
      plan(checkpoint_files({{"w", DType::F32, {2, 2}}}), cast_to(DType::F32, {}, std::nullopt));
  EXPECT_FALSE(conversion.program.targets()[0].has_casts);
  EXPECT_THAT(conversion.provenance.casts, IsEmpty());
}

/// The tiny hub model, with one of a converter's sources in F32.
Folder mixed_hub_files() {
  std::vector<TensorSpec> specs = hub_specs();
  for (TensorSpec& spec : specs) {
    if (spec.name.ends_with("experts.1.w3.weight")) spec.dtype = DType::F32;
  }
  Folder files = checkpoint_files(specs);
  files["config.json"] = config_of({});
  return files;
}

TEST_F(ConversionCastsTest, SourcesOfDifferentFloatsBecomeOneTargetOnlyByACast) {
  EXPECT_THAT(found(plan(mixed_hub_files(), to(Side::runtime))),
              ElementsAre("dtype_mismatch model.layers.0.block_sparse_moe.experts.1.w3.weight"));
  const Conversion cast = plan(mixed_hub_files(), cast_to(DType::F16, {}, Side::runtime));
  EXPECT_THAT(cast.findings, IsEmpty());
  for (const ProgramTarget& target : cast.program.targets()) EXPECT_EQ(target.dtype, DType::F16);
  const Conversion kept =
      plan(mixed_hub_files(), cast_to(DType::F16, {"*gate_up_proj"}, Side::runtime));
  EXPECT_THAT(found(kept), Contains("dtype_mismatch model.layers.0.mlp.experts.gate_up_proj"));
}

/// A runtime folder that convert would have written with this cast.
Folder cast_runtime(const Conversion& forward, DType dtype) {
  std::vector<TensorSpec> specs = runtime_specs();
  for (TensorSpec& spec : specs) spec.dtype = dtype;
  Folder files = checkpoint_files(specs);
  files["weightloom.json"] = format_provenance(forward.provenance);
  return files;
}

TEST_F(ConversionCastsTest, ACastFolderGoesBackByItsRecordInTodaysDType) {
  const Conversion forward = plan(hub_files(), cast_to(DType::F16, {}, Side::runtime));
  const Conversion back = plan(cast_runtime(forward, DType::F16), to(Side::hub));
  EXPECT_EQ(names_of(back.program), hub_names());
  for (const ProgramTarget& target : back.program.targets()) EXPECT_EQ(target.dtype, DType::F16);
  EXPECT_THAT(found(back), ElementsAre("dtype_changed model.norm.weight"));
  EXPECT_THAT(back.original_files, IsEmpty());
}

TEST_F(ConversionCastsTest, ACastFolderGoesBackInTheOriginalsDTypesWithItsHeaders) {
  const Folder hub = [] {
    std::vector<TensorSpec> specs = hub_specs();
    for (TensorSpec& spec : specs) spec.dtype = DType::F32;
    Folder files = checkpoint_files(specs);
    files["config.json"] = config_of({});
    return files;
  }();
  const Conversion forward = plan(hub, cast_to(DType::BF16, {}, Side::runtime));
  const Conversion back =
      plan(cast_runtime(forward, DType::BF16), cast_to(DType::F32, {}, Side::hub));
  EXPECT_FALSE(back.is_refused(false));
  EXPECT_THAT(found(back), Contains("dtype_changed "));
  EXPECT_EQ(back.original_files.size(), 1U) << "their headers; the values were rounded";
}

TEST_F(ConversionCastsTest, ASecondCastIsRecordedAfterTheFirst) {
  const Conversion first = plan(hub_files(), cast_to(DType::F16, {}, Side::runtime));
  const Conversion second =
      plan(cast_runtime(first, DType::F16), cast_to(DType::F32, {"lm*"}, std::nullopt));
  EXPECT_EQ(second.provenance.casts,
            (std::vector<CastRule>{{DType::F16, {}}, {DType::F32, {"lm*"}}}));
  EXPECT_EQ(second.provenance.files.size(), 1U);
  const Conversion copied = plan(cast_runtime(first, DType::F16), to(std::nullopt));
  EXPECT_EQ(copied.provenance.casts, first.provenance.casts);
}

TEST_F(ConversionCastsTest, AFolderOfAnotherDTypeThanItsRecordSaysIsRefused) {
  const Conversion forward = plan(hub_files(), cast_to(DType::F16, {}, Side::runtime));
  const Conversion back = plan(cast_runtime(forward, DType::BF16), to(Side::hub));
  EXPECT_TRUE(back.is_refused(false));
  EXPECT_THAT(found(back), Contains("shape_mismatch lm_head.weight"));
}

}  // namespace
}  // namespace weightloom::testing
