#include <atomic>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/c_api/c_results_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class CRun : public ::testing::Test {
 protected:
  CRun() {
    write_safetensors(folder_ / "model.safetensors", {{"a", DType::U8, {3}, "abc"},
                                                      {"empty", DType::F32, {0, 2}, ""},
                                                      {"z", DType::U8, {1, 2}, "yz"}});
    wl_checkpoint* source = nullptr;
    EXPECT_EQ(wl_checkpoint_open(folder_.path().c_str(), 1, &source, nullptr), WL_OK);
    EXPECT_EQ(wl_plan_create(source, nullptr, &plan_.handle, nullptr), WL_OK);
    wl_checkpoint_free(&source);
  }

  Outcome load(const wl_run_options* options, wl_statistics* statistics = nullptr) {
    return outcome_of([&](wl_error** error) {
      return wl_plan_load_into(plan_, buffers_.data(), buffers_.size(), options, statistics, error);
    });
  }

  TemporaryFolder folder_;
  OwnedPlan plan_;
  std::string a_ = "???";
  std::string z_ = "??";
  std::vector<wl_buffer> buffers_ = {{a_.data(), 3}, {nullptr, 0}, {z_.data(), 2}};
};

TEST_F(CRun, LoadsIntoTheCallersBuffers) {
  wl_statistics statistics = WL_STATISTICS_DEFAULT;
  EXPECT_EQ(load(nullptr, &statistics).status, WL_OK);
  EXPECT_EQ(a_, "abc");
  EXPECT_EQ(z_, "yz");
  EXPECT_EQ(statistics.bytes_read, 5);
  EXPECT_EQ(statistics.bytes_written, 5);
}

TEST_F(CRun, BuffersThatDoNotFitAreRefusedBeforeAnythingIsRead) {
  buffers_[2].size_bytes = 3;
  EXPECT_EQ(load(nullptr).message, "buffer 2 is memory of 3 bytes, but target 'z' needs 2");
  buffers_[2] = {nullptr, 2};
  EXPECT_EQ(load(nullptr).message, "buffer 2 is NULL of 2 bytes, but target 'z' needs 2");
  buffers_.pop_back();
  EXPECT_EQ(load(nullptr).message, "2 buffers are given, but the plan has 3 targets");
  EXPECT_EQ(wl_plan_load_into(plan_, nullptr, 3, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_plan_load_into(nullptr, nullptr, 0, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(a_, "???");
}

struct Seen {
  std::vector<int64_t> complete;
  int64_t done = 0;
  int64_t total = 0;
  int32_t answer = 0;
};

int32_t see_progress(const wl_progress* progress, void* user) {
  auto& seen = *static_cast<Seen*>(user);
  seen.done = progress->bytes_done;
  seen.total = progress->bytes_total;
  return seen.answer;
}

int32_t see_complete(int64_t index, void* user) {
  auto& seen = *static_cast<Seen*>(user);
  seen.complete.push_back(index);
  return seen.answer;
}

TEST_F(CRun, TellsProgressAndWhichTargetsAreComplete) {
  Seen seen;
  wl_run_options options = WL_RUN_OPTIONS_DEFAULT;
  options.progress = see_progress;
  options.complete = see_complete;
  options.user = &seen;
  EXPECT_EQ(load(&options).status, WL_OK);
  EXPECT_EQ(seen.done, 5);
  EXPECT_EQ(seen.total, 5);
  EXPECT_THAT(seen.complete, UnorderedElementsAre(0, 1, 2));
}

TEST_F(CRun, ACallbackStopsTheRun) {
  Seen seen;
  seen.answer = 1;
  wl_run_options options = WL_RUN_OPTIONS_DEFAULT;
  options.user = &seen;
  options.progress = see_progress;
  EXPECT_EQ(load(&options).status, WL_ERROR_CANCELLED);
  options.progress = nullptr;
  options.complete = see_complete;
  EXPECT_EQ(load(&options).status, WL_ERROR_CANCELLED);
}

TEST_F(CRun, ACallbackThatThrowsIsAFailureAndNoException) {
  wl_run_options options = WL_RUN_OPTIONS_DEFAULT;
  options.progress = [](const wl_progress*, void*) -> int32_t { throw std::runtime_error("no"); };
  const Outcome outcome = load(&options);
  EXPECT_EQ(outcome.status, WL_ERROR_IO);
  EXPECT_EQ(outcome.message, "no");
  options.progress = [](const wl_progress*, void*) -> int32_t { throw 7; };
  EXPECT_EQ(load(&options).message, "a callback threw");
  options.progress = [](const wl_progress*, void*) -> int32_t { throw std::bad_alloc(); };
  EXPECT_EQ(load(&options).status, WL_ERROR_NO_MEMORY);
}

TEST_F(CRun, ConvertsToAFile) {
  const std::string out = folder_ / "out.safetensors";
  wl_statistics statistics = WL_STATISTICS_DEFAULT;
  ASSERT_EQ(wl_plan_convert(plan_, out.c_str(), nullptr, nullptr, &statistics, nullptr), WL_OK);
  EXPECT_EQ(statistics.bytes_read, 5);
  OwnedCheckpoint written;
  ASSERT_EQ(wl_checkpoint_open(out.c_str(), 1, &written.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_checkpoint_tensor_count(written), 3);
}

TEST_F(CRun, ADestinationThatExistsIsKeptUnlessAllowed) {
  const std::string out = folder_ / "out.safetensors";
  write_file(out, "mine");
  const Outcome outcome = outcome_of([&](wl_error** error) {
    return wl_plan_convert(plan_, out.c_str(), nullptr, nullptr, nullptr, error);
  });
  EXPECT_EQ(outcome.status, WL_ERROR_EXISTS);
  EXPECT_EQ(read_whole_file(system_calls(), out), "mine");
  wl_output_options output = WL_OUTPUT_OPTIONS_DEFAULT;
  output.overwrite = 1;
  EXPECT_EQ(wl_plan_convert(plan_, out.c_str(), &output, nullptr, nullptr, nullptr), WL_OK);
}

TEST_F(CRun, OptionsThatMakeNoSenseAreRefusedBeforeWork) {
  const std::string out = folder_ / "out";
  wl_output_options output = WL_OUTPUT_OPTIONS_DEFAULT;
  output.max_shard_bytes = -1;
  EXPECT_EQ(wl_plan_convert(plan_, out.c_str(), &output, nullptr, nullptr, nullptr),
            WL_ERROR_USAGE);
  wl_run_options run = WL_RUN_OPTIONS_DEFAULT;
  run.memory_budget_bytes = -5;
  EXPECT_THAT(load(&run).message, HasSubstr("memory_budget_bytes is -5"));
  run = WL_RUN_OPTIONS_DEFAULT;
  run.memory_budget_bytes = 1;  // less than a worker needs
  EXPECT_EQ(load(&run).status, WL_ERROR_USAGE);
  wl_statistics statistics = {0, 0, 0};
  EXPECT_EQ(wl_plan_convert(plan_, out.c_str(), nullptr, nullptr, &statistics, nullptr),
            WL_ERROR_USAGE);
  EXPECT_EQ(wl_plan_convert(plan_, nullptr, nullptr, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_plan_convert(nullptr, "x", nullptr, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_FALSE(status_of(system_calls(), out));
}

}  // namespace
}  // namespace weightloom::testing
