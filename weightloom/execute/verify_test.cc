#include "weightloom/execute/verify.h"

#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VerifyTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  VerifyReport verify(const std::string& a, const std::string& b, const Selection& selection = {},
                      int threads = 2, const Syscalls& calls = system_calls()) const {
    RunOptions run;
    run.threads = threads;
    return verify_equal(calls, Checkpoint::open(system_calls(), at(a)),
                        Checkpoint::open(system_calls(), at(b)), selection, Registry::built_in(),
                        run);
  }

  void write(const std::string& name, const std::vector<TestTensor>& tensors) const {
    write_safetensors(at(name), tensors);
  }
  static std::vector<std::string> codes(const VerifyReport& report) {
    std::vector<std::string> codes;
    for (const Difference& difference : report.differences) {
      codes.push_back(difference.tensor + ":" + difference.code);
    }
    return codes;
  }

  TemporaryFolder folder_;
};

TEST_F(VerifyTest, EqualTensorsInOtherShardsAreEqual) {
  write_folder(at("a"), hub_files());
  write_folder(at("b"), hub_files(60));
  const VerifyReport report = verify("a", "b");
  EXPECT_TRUE(report.equal);
  EXPECT_EQ(report.tensors, 9);
  EXPECT_EQ(report.bytes, 360);
  EXPECT_THAT(report.differences, ElementsAre());
}

TEST_F(VerifyTest, EachKindOfDifferenceIsTold) {
  write("a.safetensors", {{"dtype", DType::U8, {2}, "ab"},
                          {"only_a", DType::U8, {1}, "x"},
                          {"same", DType::U8, {3}, "abc"},
                          {"shape", DType::U8, {2, 1}, "ab"},
                          {"values", DType::U8, {5}, "abcde"}});
  write("b.safetensors", {{"dtype", DType::I8, {2}, "ab"},
                          {"only_b", DType::U8, {1}, "x"},
                          {"same", DType::U8, {3}, "abc"},
                          {"shape", DType::U8, {2}, "ab"},
                          {"values", DType::U8, {5}, "abcXY"}});
  const VerifyReport report = verify("a.safetensors", "b.safetensors");
  EXPECT_FALSE(report.equal);
  EXPECT_THAT(codes(report), ElementsAre("dtype:dtype", "only_a:only_in_a", "only_b:only_in_b",
                                         "shape:shape", "values:values"));
  EXPECT_EQ(report.differences[0].message, "'dtype' is U8 in A, I8 in B");
  EXPECT_EQ(report.differences[3].message, "'shape' is [2, 1] in A, [2] in B");
  EXPECT_EQ(report.differences[4].message, "'values' differs, first at byte 3");
  EXPECT_EQ(report.tensors, 2);
}

TEST_F(VerifyTest, TheFirstDifferingByteIsFoundAcrossTiles) {
  const size_t size = 9 << 20;
  std::string a(size, 'a');
  std::string b = a;
  for (size_t byte : {size - 1, (size_t{5} << 20) + 3, (size_t{4} << 20) + 262'144}) b[byte] = 'b';
  write("a.safetensors", {{"t", DType::U8, {int64_t{9} << 20}, a}});
  write("b.safetensors", {{"t", DType::U8, {int64_t{9} << 20}, b}});
  for (int threads : {1, 4}) {
    const VerifyReport report = verify("a.safetensors", "b.safetensors", {}, threads);
    ASSERT_EQ(report.differences.size(), 1U);
    EXPECT_EQ(report.differences[0].message, "'t' differs, first at byte 4456448");
  }
}

TEST_F(VerifyTest, BIsBroughtToTheLayoutOfA) {
  write_folder(at("hub"), hub_files());
  run(job(at("hub"), at("runtime"), Side::runtime));
  for (const auto& [a, b] : {std::pair("hub", "runtime"), std::pair("runtime", "hub")}) {
    const VerifyReport report = verify(a, b);
    EXPECT_TRUE(report.equal) << a;
    EXPECT_EQ(report.bytes, 360);
  }
}

TEST_F(VerifyTest, ADifferenceBehindAConversionIsToldInTheNamesOfA) {
  write_folder(at("hub"), hub_files());
  run(job(at("hub"), at("runtime"), Side::runtime));
  Folder changed = read_folder(at("hub")).value();
  changed["model.safetensors"].back() ^= 1;  // the last tensor of the last dtype: the gate
  write_folder(at("hub"), changed);
  const VerifyReport report = verify("runtime", "hub");
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].tensor, "model.layers.0.mlp.gate.weight");
  EXPECT_EQ(report.differences[0].code, "values");
}

TEST_F(VerifyTest, WhatIsNotSelectedIsNotCompared) {
  write("a.safetensors", {{"x", DType::U8, {1}, "1"}, {"y", DType::U8, {1}, "1"}});
  write("b.safetensors", {{"x", DType::U8, {1}, "1"}, {"y", DType::U8, {1}, "2"}});
  Selection selection;
  selection.exclude = {"y"};
  EXPECT_TRUE(verify("a.safetensors", "b.safetensors", selection).equal);
}

TEST_F(VerifyTest, ACheckpointThatCannotBeBroughtThereIsRefused) {
  write_folder(at("hub"), hub_files());
  run(job(at("hub"), at("runtime"), Side::runtime));
  Folder lacking = checkpoint_files([] {
    std::vector<TensorSpec> specs = hub_specs();
    std::erase_if(specs, [](const TensorSpec& spec) { return spec.name.ends_with("1.w3.weight"); });
    return specs;
  }());
  lacking["config.json"] = config_of({});
  write_folder(at("lacking"), lacking);
  const auto error = refusal_of([&] { verify("runtime", "lacking"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::plan);
}

TEST_F(VerifyTest, AReadErrorOfEitherSideComesOut) {
  write("a.safetensors", {{"x", DType::U8, {1}, "1"}});
  write("b.safetensors", {{"x", DType::U8, {1}, "1"}});
  for (int64_t number : {0, 1}) {
    FaultSyscalls calls;
    calls.fail_call(CallKind::pread, number, EIO);
    const auto error = refusal_of([&] { verify("a.safetensors", "b.safetensors", {}, 1, calls); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io);
    EXPECT_THAT(error->what(), HasSubstr(number == 0 ? "b.safetensors" : "a.safetensors"));
  }
}

TEST_F(VerifyTest, ReadableReadsEveryByte) {
  write_folder(at("a"), hub_files(60));
  const FaultSyscalls calls;
  const Checkpoint a = Checkpoint::open(system_calls(), at("a"));
  RunOptions run;
  run.threads = 3;
  int64_t seen = 0;
  run.progress = [&](const Progress& progress) { seen = progress.bytes_done; };
  const VerifyReport report = verify_readable(calls, a, run);
  EXPECT_TRUE(report.equal);
  EXPECT_EQ(report.tensors, 9);
  EXPECT_EQ(report.bytes, 360);
  EXPECT_EQ(seen, 360);
}

TEST_F(VerifyTest, ReadableRefusesAFileThatLostItsEnd) {
  write("a.safetensors", {{"x", DType::U8, {5}, "12345"}});
  const Checkpoint a = Checkpoint::open(system_calls(), at("a.safetensors"));
  FaultSyscalls calls;
  calls.fail_every(CallKind::pread, EIO);
  EXPECT_EQ(refusal_of([&] { verify_readable(calls, a, {}); }).value().code(), ErrorCode::io);
  write_file(at("a.safetensors"), "cut");
  EXPECT_EQ(refusal_of([&] { verify_readable(system_calls(), a, {}); }).value().code(),
            ErrorCode::checkpoint);
}

}  // namespace
}  // namespace weightloom::testing
