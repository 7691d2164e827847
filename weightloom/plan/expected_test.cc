#include "weightloom/plan/expected.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExpectedTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  Expected read(const std::string& json) const {
    write_text(at("expected.json"), json);
    return read_expected(system_calls(), at("expected.json"));
  }

  std::string refusal(const std::string& json) const {
    const auto error = refusal_of([&] { read(json); });
    return error && error->code() == ErrorCode::format ? error->what() : "";
  }

  Conversion plan(const std::vector<TensorSpec>& specs, Expected expected,
                  const std::string& config = R"({"model_type": "x"})") const {
    remove_all(system_calls(), at("m"));
    Folder files = checkpoint_files(specs);
    files["config.json"] = config;
    write_folder(at("m"), files);
    Selection selection;
    selection.to = Side::runtime;
    selection.mapping = "none";
    selection.expected = std::move(expected);
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m")), selection,
                           Registry());
  }

  TemporaryFolder folder_;
};

/// "severity code tensor" of each finding.
std::vector<std::string> found(const Conversion& conversion) {
  std::vector<std::string> texts;
  for (const Finding& finding : conversion.findings) {
    const char* severity = finding.severity == Severity::error    ? "error "
                           : finding.severity == Severity::strict ? "strict "
                                                                  : "report ";
    texts.push_back(severity + finding.code + " " + finding.tensor);
  }
  return texts;
}

std::vector<std::string> names_of(const CopyProgram& program) {
  std::vector<std::string> names;
  for (const ProgramTarget& target : program.targets()) names.push_back(target.name);
  return names;
}

Expected expecting(std::vector<ExpectedTensor> tensors) {
  Expected expected;
  expected.tensors = std::move(tensors);
  return expected;
}

TEST_F(ExpectedTest, IsReadFromAnObjectOfTensors) {
  const Expected expected = read(R"({"a": {"dtype": "BF16", "shape": [2, 3]}, "b": {}})");
  ASSERT_EQ(expected.tensors.size(), 2U);
  EXPECT_EQ(expected.tensors[0].name, "a");
  EXPECT_EQ(expected.tensors[0].dtype, DType::BF16);
  EXPECT_EQ(expected.tensors[0].shape, (Shape{2, 3}));
  EXPECT_FALSE(expected.tensors[1].dtype || expected.tensors[1].shape);
}

TEST_F(ExpectedTest, IsReadFromWhatPlanAndInspectPrint) {
  EXPECT_EQ(read(R"({"rank": 0, "targets": [{"name": "a", "shape": []}]})").tensors[0].name, "a");
  EXPECT_EQ(read(R"({"tensors": [{"name": "b", "dtype": "F32"}]})").tensors[0].dtype, DType::F32);
}

TEST_F(ExpectedTest, IsReadFromACheckpointsHeaders) {
  write_folder(at("c"), checkpoint_files({{"t", DType::F16, {4}}}));
  const Expected expected = read_expected(system_calls(), at("c"));
  ASSERT_EQ(expected.tensors.size(), 1U);
  EXPECT_EQ(expected.tensors[0].dtype, DType::F16);
}

TEST_F(ExpectedTest, BadFilesAreRefusedNamingTheTensor) {
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(refusal(R"({"a": 1})"), HasSubstr("'a' must be an object"));
  EXPECT_THAT(refusal(R"({"a": {"dtype": "bfloat"}})"), HasSubstr("'a': 'dtype' is no dtype"));
  EXPECT_THAT(refusal(R"({"a": {"shape": [-1]}})"), HasSubstr("'a': 'shape' must be"));
  EXPECT_THAT(refusal(R"({"a": {}, "a": {}})"), HasSubstr("'a' stands there twice"));
  EXPECT_THAT(refusal(R"({"a": {"Shape": [1]}})"), HasSubstr("'a' has the unknown key 'Shape'"));
  EXPECT_THAT(refusal(R"({"targets": [{}]})"), HasSubstr("has no name"));
}

TEST_F(ExpectedTest, AllThatDoesNotFitIsFoundAtOnce) {
  const Conversion conversion = plan(
      {{"shape", DType::F32, {2}}, {"dtype", DType::F32, {2}}, {"extra", DType::F32, {2}}},
      expecting(
          {{"shape", DType::F32, Shape{3}}, {"dtype", DType::BF16, Shape{2}}, {"absent", {}, {}}}));
  EXPECT_THAT(found(conversion), ElementsAre("error mismatched dtype", "strict unexpected extra",
                                             "error mismatched shape", "error missing absent"));
  EXPECT_TRUE(conversion.is_refused(true));
}

TEST_F(ExpectedTest, LenientLetsTheUnexpectedPassAndLeavesItOut) {
  const Conversion conversion = plan({{"a", DType::F32, {2}}, {"extra", DType::F32, {2}}},
                                     expecting({{"a", DType::F32, Shape{2}}}));
  EXPECT_THAT(found(conversion), ElementsAre("strict unexpected extra"));
  EXPECT_TRUE(conversion.is_refused(false));
  EXPECT_FALSE(conversion.is_refused(true));
  EXPECT_THAT(names_of(conversion.program), ElementsAre("a"));
}

TEST_F(ExpectedTest, CastsGiveTheExpectedDTypes) {
  Expected expected = expecting({{"a", DType::BF16, {}}, {"b", DType::F32, {}}});
  expected.cast = true;
  const Conversion conversion =
      plan({{"a", DType::F32, {2}}, {"b", DType::BF16, {2}}}, std::move(expected));
  EXPECT_THAT(found(conversion), IsEmpty());
  EXPECT_EQ(conversion.program.targets()[0].dtype, DType::BF16);
  EXPECT_EQ(conversion.program.targets()[1].dtype, DType::F32);
}

TEST_F(ExpectedTest, MissingAndMismatchedMayBeLetPass) {
  Expected expected = expecting({{"a", {}, Shape{3}}, {"b", {}, {}}});
  expected.may_miss = expected.may_mismatch = true;
  const Conversion conversion = plan({{"a", DType::F32, {2}}}, std::move(expected));
  EXPECT_THAT(found(conversion), ElementsAre("report mismatched a", "report missing b"));
  EXPECT_FALSE(conversion.is_refused(false));
  EXPECT_THAT(names_of(conversion.program), IsEmpty());
}

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

Expected head_and_embedding() { return expecting({{kHead, {}, {}}, {kEmbedding, {}, {}}}); }

TEST_F(ExpectedTest, ATiedHeadIsTheEmbedding) {
  const Conversion conversion = plan({{kEmbedding, DType::F32, {2}}}, head_and_embedding(),
                                     R"({"model_type": "x", "tie_word_embeddings": true})");
  EXPECT_THAT(found(conversion), IsEmpty());
  EXPECT_THAT(conversion.tied, ElementsAre(TiedName{kHead, kEmbedding}));
  EXPECT_THAT(names_of(conversion.program), ElementsAre(kEmbedding));
}

TEST_F(ExpectedTest, AnAbsentHeadThatIsNotTiedIsMissingAndConfigIsNamed) {
  const Conversion conversion = plan({{kEmbedding, DType::F32, {2}}}, head_and_embedding(),
                                     R"({"model_type": "x", "tie_word_embeddings": false})");
  ASSERT_THAT(found(conversion), ElementsAre("error missing lm_head.weight"));
  EXPECT_THAT(conversion.findings.front().message, HasSubstr("tie_word_embeddings false"));
}

TEST_F(ExpectedTest, BothStoredAreKeptForTheValuesToTell) {
  const Conversion conversion =
      plan({{kEmbedding, DType::F32, {2}}, {kHead, DType::F32, {2}}}, head_and_embedding(),
           R"({"model_type": "x", "tie_word_embeddings": true})");
  EXPECT_THAT(found(conversion), IsEmpty());
  EXPECT_THAT(conversion.tied, IsEmpty());
  EXPECT_THAT(conversion.tied_but_stored, ElementsAre(TiedName{kHead, kEmbedding}));
}

TEST_F(ExpectedTest, WithoutAnExpectationNothingIsAssumedTied) {
  write_folder(at("m"), checkpoint_files({{kEmbedding, DType::F32, {2}}}));
  write_text(at("m/config.json"), R"({"model_type": "x", "tie_word_embeddings": true})");
  Selection selection;
  selection.to = Side::runtime;
  selection.mapping = "none";
  const auto source = Checkpoint::open(system_calls(), at("m"));
  EXPECT_THAT(plan_conversion(system_calls(), source, selection, Registry()).tied, IsEmpty());
}

}  // namespace
}  // namespace weightloom::testing
