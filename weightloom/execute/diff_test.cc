#include "weightloom/execute/diff.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Diff : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::vector<TestTensor>& tensors) {
    write_safetensors(folder_ / name, tensors);
  }

  DiffReport diff_of(const std::string& a, const std::string& b, const Selection& selection = {},
                     RunOptions run = {}) {
    return diff(system_calls(), Checkpoint::open(system_calls(), folder_ / a),
                Checkpoint::open(system_calls(), folder_ / b), selection, Registry::built_in(),
                run);
  }

  static std::vector<std::string> messages(const DiffReport& report) {
    std::vector<std::string> lines;
    for (const TensorDifference& difference : report.differences) {
      lines.push_back(difference.code + ": " + difference.message);
    }
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(Diff, EqualFilesHaveNoDifferences) {
  write("a.safetensors", {{"x", DType::F32, {2}, floats({1, 2})}, {"e", DType::F32, {0}, ""}});
  const DiffReport report = diff_of("a.safetensors", "a.safetensors");
  EXPECT_TRUE(report.equal);
  EXPECT_EQ(report.tensors, 2);
  EXPECT_EQ(report.bytes, 8);
  EXPECT_THAT(report.differences, IsEmpty());
}

TEST_F(Diff, TellsEachKindOfDifferenceByTensor) {
  write("a.safetensors", {{"bits", DType::F32, {1}, floats({0.0F})},
                          {"dtype", DType::F32, {1}, floats({1})},
                          {"mine", DType::U8, {1}, "x"},
                          {"shape", DType::U8, {2, 1}, "xy"},
                          {"values", DType::F32, {2, 2}, floats({1, 2, 3, 4})}});
  write("b.safetensors", {{"bits", DType::F32, {1}, floats({-0.0F})},
                          {"dtype", DType::BF16, {1}, std::string("\x80\x3f", 2)},
                          {"shape", DType::U8, {1, 2}, "xy"},
                          {"theirs", DType::U8, {0}, ""},
                          {"values", DType::F32, {2, 2}, floats({1, 2, 3.5F, 3})}});
  const DiffReport report = diff_of("a.safetensors", "b.safetensors");
  EXPECT_FALSE(report.equal);
  EXPECT_THAT(
      messages(report),
      ElementsAre(
          "bits: 'bits': 1 of 1 elements have the same value in other bits",
          "dtype: 'dtype': F32 in A, BF16 in B; all values are equal",
          "only_in_a: 'mine': in A alone, U8 [1]", "shape: 'shape': U8 [2, 1] in A, U8 [1, 2] in B",
          "only_in_b: 'theirs': in B alone, U8 [0]",
          "values: 'values': 2 of 4 values differ, by 1 at most, at [1, 1]; first at [1, 0]"));
  const TensorDifference& values = report.differences.back();
  ASSERT_TRUE(values.values);
  EXPECT_EQ(values.values->max_abs, 1);
  EXPECT_EQ(values.values->first_index, 2);
  EXPECT_EQ(values.a, (TensorKind{DType::F32, {2, 2}}));
  EXPECT_FALSE(report.differences[2].b);
}

TEST_F(Diff, DtypesWithoutNumbersAreComparedByBytes) {
  write("a.safetensors", {{"x", DType::F4, {4}, "ab"}, {"y", DType::F4, {2}, "c"}});
  write("b.safetensors", {{"x", DType::F4, {4}, "aB"}, {"y", DType::F32, {2}, floats({1, 2})}});
  EXPECT_THAT(messages(diff_of("a.safetensors", "b.safetensors")),
              ElementsAre("bits: 'x': 1 of 2 bytes differ; F4 is not compared by value",
                          "dtype: 'y': F4 in A, F32 in B; values are not compared"));
}

TEST_F(Diff, GlobsChooseWhatIsCompared) {
  write("a.safetensors", {{"x.a", DType::U8, {1}, "1"}, {"y", DType::U8, {1}, "1"}});
  write("b.safetensors",
        {{"x.a", DType::U8, {1}, "1"}, {"y", DType::U8, {1}, "2"}, {"z", DType::U8, {1}, "3"}});
  Selection selection;
  selection.include = {"x.*"};
  EXPECT_TRUE(diff_of("a.safetensors", "b.safetensors", selection).equal);
  selection.include = {"nothing"};
  EXPECT_TRUE(refusal_of([&] { diff_of("a.safetensors", "b.safetensors", selection); }));
  // Only one side has it.
  selection.include = {"z"};
  EXPECT_THAT(messages(diff_of("b.safetensors", "a.safetensors", selection)),
              ElementsAre("only_in_a: 'z': in A alone, U8 [1]"));
}

TEST_F(Diff, NamesStayUnlessALayoutIsAskedFor) {
  write_folder(folder_ / "hub", hub_files());
  const auto source = Checkpoint::open(system_calls(), folder_ / "hub");
  Selection to_runtime;
  to_runtime.to = Side::runtime;
  const auto conversion = plan_conversion(system_calls(), source, to_runtime, Registry::built_in());
  convert(quick_calls(), source, conversion, false, folder_ / "runtime", {}, {});
  const DiffReport as_they_are = diff_of("runtime", "hub");
  EXPECT_FALSE(as_they_are.equal);
  EXPECT_EQ(as_they_are.tensors, 2);  // lm_head and norm
  EXPECT_TRUE(diff_of("runtime", "hub", to_runtime).equal);
  Selection named;
  named.mapping = "mixtral";  // and the side is A's
  EXPECT_TRUE(diff_of("runtime", "hub", named).equal);
}

TEST_F(Diff, TheResultDependsNeitherOnThreadsNorOnTheBudget) {
  std::vector<float> values(700001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
  write("a.safetensors", {{"x", DType::F32, {700001}, floats(values)}});
  values[123456] = 1e9F;
  values[650000] = -7;
  write("b.safetensors", {{"x", DType::F32, {700001}, floats(values)}});
  for (const int threads : {1, 3}) {
    for (const int64_t budget : {3 * (int64_t{1} << 20) + 4099, int64_t{1} << 28}) {
      RunOptions run;
      run.threads = threads;
      run.memory_budget_bytes = budget;
      const DiffReport report = diff_of("a.safetensors", "b.safetensors", {}, run);
      ASSERT_EQ(report.differences.size(), 1U);
      const ValueDifference& found = *report.differences[0].values;
      EXPECT_EQ(found.elements, 700001);
      EXPECT_EQ(found.differing, 2);
      EXPECT_EQ(found.first_index, 123456);
      EXPECT_EQ(found.max_abs_index, 123456);
    }
  }
}

TEST_F(Diff, ATargetIsStoppedOnRequest) {
  write("a.safetensors", {{"x", DType::U8, {1}, "1"}});
  std::stop_source stop;
  stop.request_stop();
  RunOptions run;
  run.stop = stop.get_token();
  const auto error = refusal_of([&] { diff_of("a.safetensors", "a.safetensors", {}, run); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::cancelled);
}

TEST(CoordinatesOf, CountOutermostFirst) {
  EXPECT_THAT(coordinates_of(7, {2, 5}), ElementsAre(1, 2));
  EXPECT_THAT(coordinates_of(0, {}), IsEmpty());
  EXPECT_THAT(coordinates_of(5, {6}), ElementsAre(5));
}

}  // namespace
}  // namespace weightloom::testing
