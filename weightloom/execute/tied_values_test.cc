#include "weightloom/execute/tied_values.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
const TiedName kPair{kHead, kEmbedding};

class TiedValuesTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  /// A checkpoint of both tensors whose config says that they are tied, planned as it is.
  Conversion plan(const std::string& head, const std::string& embedding,
                  Shape head_shape = {4}) const {
    make_folder(system_calls(), at("m"));
    write_safetensors(at("m/model.safetensors"), {{kHead, DType::U8, head_shape, head},
                                                  {kEmbedding, DType::U8, {4}, embedding},
                                                  {"norm", DType::U8, {1}, "n"}});
    write_whole_file(system_calls(), at("m/config.json"),
                     R"({"model_type": "x", "tie_word_embeddings": true})");
    return plan_conversion(system_calls(), Checkpoint::open(system_calls(), at("m")), {},
                           Registry());
  }

  TiedValues compared(const Conversion& conversion) const {
    return compare_tied(system_calls(), conversion, {});
  }

  TemporaryFolder folder_;
};

std::vector<std::string> names_of(const Conversion& conversion) {
  std::vector<std::string> names;
  for (const auto& target : conversion.program.targets()) names.push_back(target.name);
  return names;
}

TEST_F(TiedValuesTest, EqualBytesAreOneTensor) {
  const TiedValues values = compared(plan("abcd", "abcd"));
  EXPECT_THAT(values.equal, ElementsAre(kPair));
  EXPECT_THAT(values.different, IsEmpty());
}

TEST_F(TiedValuesTest, TheLastByteCounts) {
  EXPECT_THAT(compared(plan("abcd", "abcX")).different, ElementsAre(kPair));
}

TEST_F(TiedValuesTest, AnotherShapeIsAnotherTensor) {
  EXPECT_THAT(compared(plan("abcd", "abcd", {2, 2})).different, ElementsAre(kPair));
}

TEST_F(TiedValuesTest, TheSecondOfAnEqualPairIsLeftOut) {
  const Conversion once = without_equal_ties(system_calls(), plan("abcd", "abcd"), {});
  EXPECT_THAT(names_of(once), ElementsAre(kEmbedding, "norm"));
  EXPECT_THAT(once.tied, ElementsAre(kPair));
  EXPECT_THAT(once.kept_names, IsEmpty());
}

TEST_F(TiedValuesTest, WhereValuesDifferBothStayAndConfigIsNamed) {
  const Conversion both = without_equal_ties(system_calls(), plan("abcd", "abcX"), {});
  EXPECT_THAT(names_of(both), ElementsAre(kHead, kEmbedding, "norm"));
  ASSERT_FALSE(both.findings.empty());
  const Finding& finding = both.findings.back();
  EXPECT_EQ(finding.code, "tied_values_differ");
  EXPECT_EQ(finding.severity, Severity::report);
  EXPECT_THAT(finding.message, ::testing::HasSubstr("tie_word_embeddings should be false"));
}

TEST_F(TiedValuesTest, WhatIsWrittenHoldsTheTensorOnce) {
  const Conversion once = without_equal_ties(system_calls(), plan("abcd", "abcd"), {});
  const Checkpoint source = Checkpoint::open(system_calls(), at("m"));
  convert(system_calls(), source, once, false, at("out"), {}, {});
  const Checkpoint out = Checkpoint::open(system_calls(), at("out"));
  EXPECT_EQ(out.find(kHead), nullptr);
  EXPECT_NE(out.find(kEmbedding), nullptr);
}

}  // namespace
}  // namespace weightloom::testing
