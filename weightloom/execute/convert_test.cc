#include "weightloom/execute/convert.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr int64_t kTwoShards = 250;  // bytes: the tiny model has 360

class ConvertTest : public ::testing::Test {
 protected:
  /// A hub folder at `name`.
  std::string hub(const std::string& name, int64_t max_shard_bytes = 1 << 30,
                  const TinyModel& model = {}) {
    write_folder(folder_ / name, hub_files(max_shard_bytes, model));
    return folder_ / name;
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  Folder files(const std::string& name) const { return read_folder(folder_ / name).value(); }

  TemporaryFolder folder_;
};

TEST_F(ConvertTest, ToRuntimeFusesTheExpertsAndTakesSideFilesAlong) {
  const ConvertReport report = run(job(hub("hub"), at("runtime"), Side::runtime));
  EXPECT_EQ(read_tensors(at("runtime")), runtime_tensors());
  EXPECT_THAT(report.files, ElementsAre("model.safetensors"));
  EXPECT_EQ(report.targets, 5);
  EXPECT_EQ(report.bytes_needed, 360);
  EXPECT_EQ(report.bytes_read, 360);
  EXPECT_EQ(report.bytes_written, 360);
  EXPECT_EQ(files("runtime")["config.json"], config_of({}));
  EXPECT_THAT(list_folder(system_calls(), at("runtime")),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json", "weightloom.json"));
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub", "runtime"));
}

TEST_F(ConvertTest, ThereAndBackGivesIdenticalFiles) {
  for (int64_t max_shard_bytes : {int64_t{1} << 30, kTwoShards, int64_t{60}}) {
    TemporaryFolder folder;
    const Folder original = hub_files(max_shard_bytes);
    write_folder(folder / "hub", original);
    run(job(folder / "hub", folder / "runtime", Side::runtime));
    run(job(folder / "runtime", folder / "back", Side::hub));
    Folder back = read_folder(folder / "back").value();
    EXPECT_EQ(back.erase("weightloom.json"), 1U);
    EXPECT_EQ(back, original);
  }
}

TEST_F(ConvertTest, ThereAndBackWithoutARecordGivesTheTensors) {
  run(job(hub("hub", kTwoShards), at("runtime"), Side::runtime));
  remove_all(system_calls(), at("runtime/weightloom.json"));
  run(job(at("runtime"), at("back"), Side::hub));
  EXPECT_EQ(read_tensors(at("back")), read_tensors(at("hub")));
}

TEST_F(ConvertTest, ThereAndBackKeepsAnIndexAndHeadersThatAreNotOurOwn) {
  Folder original = hub_files(kTwoShards);
  original["model.safetensors.index.json"].append("\n\n");
  write_folder(at("hub"), original);
  run(job(at("hub"), at("runtime"), Side::runtime));
  Job back = job(at("runtime"), at("back"), Side::hub);
  run(back);
  EXPECT_EQ(files("back")["model.safetensors.index.json"],
            original["model.safetensors.index.json"]);
}

TEST_F(ConvertTest, AFolderWithoutConfigIsCopiedToOneThatCanBeReadAgain) {
  write_folder(at("bare"), checkpoint_files(hub_specs()));
  run(job(at("bare"), at("copy"), std::nullopt));
  EXPECT_EQ(read_tensors(at("copy")), read_tensors(at("bare")));
  run(job(at("copy"), at("copy2"), std::nullopt));
  EXPECT_EQ(files("copy2"), files("copy"));
}

TEST_F(ConvertTest, TheRecordSurvivesACopyInTheRuntimeLayout) {
  run(job(hub("hub", kTwoShards), at("runtime"), Side::runtime));
  Job reshard = job(at("runtime"), at("resharded"), std::nullopt);
  reshard.output.max_shard_bytes = 100;
  reshard.output.max_shard_given = true;
  EXPECT_GT(run(reshard).files.size(), 2U);
  run(job(at("resharded"), at("back"), Side::hub));
  Folder back = files("back");
  back.erase("weightloom.json");
  EXPECT_EQ(back, files("hub"));
}

TEST_F(ConvertTest, ShardsAreFilledUpToTheSizeGiven) {
  Job sharded = job(hub("hub"), at("out"), Side::runtime);
  sharded.output.max_shard_bytes = 200;
  sharded.output.max_shard_given = true;
  const ConvertReport report = run(sharded);
  EXPECT_THAT(report.files,
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors"));
  EXPECT_EQ(read_tensors(at("out")), runtime_tensors());
}

TEST_F(ConvertTest, AnotherFoldersSplitIsCopied) {
  hub("like", kTwoShards);
  Job job_like = job(hub("hub"), at("out"), std::nullopt);
  job_like.output.layout_from = at("like");
  run(job_like);
  EXPECT_EQ(files("out")["model-00001-of-00002.safetensors"],
            files("like")["model-00001-of-00002.safetensors"]);
  job_like.destination = at("out2");
  job_like.output.layout_from = at("like/model.safetensors.index.json");
  run(job_like);
  EXPECT_EQ(files("out2"), files("out"));
}

TEST_F(ConvertTest, ASplitThatLacksATensorIsRefusedBeforeWork) {
  write_folder(at("like"), checkpoint_files({{"lm_head.weight", DType::BF16, {5, 4}}}));
  Job job_like = job(hub("hub"), at("out"), std::nullopt);
  job_like.output.layout_from = at("like");
  const auto error = refusal_of([&] { run(job_like); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub", "like"));
}

TEST_F(ConvertTest, ASplitWithAShardNamedAsTheRecordIsRefused) {
  write_text(at("index.json"), R"({"weight_map": {"a": "weightloom.json"}})");
  write_folder(at("src"), checkpoint_files({{"a", DType::U8, {3}}}));
  Job job_like = job(at("src"), at("out"), std::nullopt);
  job_like.output.layout_from = at("index.json");
  const auto error = refusal_of([&] { run(job_like); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("weightloom.json: a shard cannot have the name"));
}

TEST_F(ConvertTest, ADestinationThatEndsInSafetensorsIsOneFile) {
  const ConvertReport report = run(job(hub("hub", 60), at("one.safetensors"), Side::runtime));
  EXPECT_THAT(report.files, ElementsAre("one.safetensors"));
  EXPECT_EQ(read_tensors(at("one.safetensors")), runtime_tensors());
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub", "one.safetensors"));
}

TEST_F(ConvertTest, ATrailingSlashOfTheDestinationChangesNothing) {
  run(job(hub("hub"), at("a"), Side::runtime));
  run(job(at("hub"), at("b//"), Side::runtime));
  EXPECT_EQ(files("a"), files("b"));
}

TEST_F(ConvertTest, BytesDoNotDependOnThreadsOrBudget) {
  const TinyModel model{.layers = 2, .experts = 3, .hidden = 96, .ffn = 1700};
  Job first = job(hub("hub", 3 << 20, model), at("a"), Side::runtime);
  run(first);
  EXPECT_EQ(read_tensors(at("a")), runtime_tensors(model));
  Job second = job(at("hub"), at("b"), Side::runtime);
  second.run.threads = 4;
  second.run.memory_budget_bytes = 4 << 20;
  const ConvertReport report = run(second);
  EXPECT_EQ(files("a"), files("b"));
  EXPECT_LE(report.peak_working_bytes, 4 << 20);
  EXPECT_EQ(report.bytes_read, report.bytes_needed);
  second.destination = at("c");
  second.run.memory_budget_bytes = 256 << 20;
  run(second);
  EXPECT_EQ(files("a"), files("c"));
}

TEST_F(ConvertTest, ATransposeLargerThanTheBudgetComesBackWhole) {
  write_text(at("t.json"),
             R"({"format": "weightloom.mapping/1", "name": "t", "transforms": [
                 {"type": "WeightConverter", "source_patterns": ["a.weight"],
                  "target_patterns": ["b.weight"],
                  "operations": [{"op": "Transpose", "dim0": 0, "dim1": 1}]}]})");
  const int64_t rows = 1531;
  const int64_t columns = 1013;
  write_folder(at("src"), checkpoint_files({{"a.weight", DType::BF16, {rows, columns}}}));
  Job there = job(at("src"), at("there"), Side::runtime);
  there.selection.mapping = at("t.json");
  there.selection.from = Side::hub;
  const ConvertReport report = run(there);
  EXPECT_LE(report.peak_working_bytes, 1 << 20);
  std::string expected(static_cast<size_t>(rows * columns * 2), '\0');
  const std::string original = content_of({"a.weight", DType::BF16, {rows, columns}});
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      expected.replace(2 * (j * rows + i), 2, original, 2 * (i * columns + j), 2);
    }
  }
  EXPECT_EQ(read_tensors(at("there"))["b.weight"],
            tensor_text(DType::BF16, {columns, rows}, expected));
  run(job(at("there"), at("back"), Side::hub));
  EXPECT_EQ(files("back")["model.safetensors"], files("src")["model.safetensors"]);
}

TEST_F(ConvertTest, ACheckpointWithoutTensorsIsConverted) {
  write_folder(at("empty"), checkpoint_files({}));
  EXPECT_EQ(run(job(at("empty"), at("out"), std::nullopt)).targets, 0);
  EXPECT_THAT(read_tensors(at("out")), IsEmpty());
}

TEST_F(ConvertTest, ARefusedPlanWritesNothing) {
  Folder files = checkpoint_files(hub_specs());
  files["config.json"] = R"({"model_type": "mixtral", "num_local_experts": 3})";
  write_folder(at("hub"), files);
  const auto error = refusal_of([&] { run(job(at("hub"), at("out"), Side::runtime)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::plan);
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub"));
}

TEST_F(ConvertTest, ACancelledRunLeavesNothing) {
  for (int threads : {1, 4}) {
    std::stop_source stop;
    Job cancelled = job(hub("hub", 60), at("out"), Side::runtime);
    cancelled.output.max_shard_bytes = 60;
    cancelled.run.threads = threads;
    cancelled.run.memory_budget_bytes = 4 << 20;
    cancelled.run.stop = stop.get_token();
    cancelled.run.progress = [&](const Progress&) { stop.request_stop(); };
    const auto error = refusal_of([&] { run(cancelled); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::cancelled);
    EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub"));
  }
}

TEST_F(ConvertTest, WhatTheProgressCallbackThrowsLeavesNothing) {
  Job stopped = job(hub("hub"), at("out"), Side::runtime);
  stopped.run.progress = [](const Progress&) { throw std::runtime_error("enough"); };
  EXPECT_THROW(run(stopped), std::runtime_error);
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("hub"));
}

}  // namespace
}  // namespace weightloom::testing
