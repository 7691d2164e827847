#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/c_api/c_results_testing.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

class CPlan : public ::testing::Test {
 protected:
  CPlan() {
    write_folder(hub_, hub_files());
    EXPECT_EQ(wl_checkpoint_open(hub_.c_str(), 1, &source_.handle, nullptr), WL_OK);
  }

  Outcome create(const wl_plan_options& options) {
    OwnedPlan plan;
    return outcome_of(
        [&](wl_error** error) { return wl_plan_create(source_, &options, &plan.handle, error); });
  }

  TemporaryFolder folder_;
  const std::string hub_ = folder_ / "hub";
  OwnedCheckpoint source_;
};

TEST_F(CPlan, TellsItsTargets) {
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.to = "runtime";
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source_, &options, &plan.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_plan_is_refused(plan), 0);
  EXPECT_EQ(wl_plan_target_count(plan), 5);
  const int64_t at = wl_plan_find_target(plan, "model.layers.0.mlp.experts.gate_up_proj");
  ASSERT_GE(at, 0);
  wl_tensor target = WL_TENSOR_DEFAULT;
  ASSERT_EQ(wl_plan_target(plan, at, &target, nullptr), WL_OK);
  EXPECT_STREQ(target.name, "model.layers.0.mlp.experts.gate_up_proj");
  // Two experts of gate and up, 6 rows each, over 4 columns.
  EXPECT_EQ(std::vector<int64_t>(target.shape, target.shape + target.rank),
            (std::vector<int64_t>{2, 12, 4}));
  EXPECT_EQ(target.size_bytes, 2 * 12 * 4 * 2);
  EXPECT_EQ(wl_plan_find_target(plan, "model"), -1);
  EXPECT_EQ(wl_plan_target(plan, 5, &target, nullptr), WL_ERROR_USAGE);
}

TEST_F(CPlan, WithoutOptionsNamesStay) {
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source_, nullptr, &plan.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_plan_target_count(plan), wl_checkpoint_tensor_count(source_));
}

TEST_F(CPlan, OutlivesItsCheckpoint) {
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source_, nullptr, &plan.handle, nullptr), WL_OK);
  wl_checkpoint_free(&source_.handle);
  const std::string out = folder_ / "out";
  EXPECT_EQ(wl_plan_convert(plan, out.c_str(), nullptr, nullptr, nullptr, nullptr), WL_OK);
}

TEST_F(CPlan, GlobsChooseTargets) {
  const char* include[] = {"*.experts.0.*", "lm_head.*"};
  const char* exclude[] = {"*.w2.*"};
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.include = include;
  options.include_count = 2;
  options.exclude = exclude;
  options.exclude_count = 1;
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source_, &options, &plan.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_plan_target_count(plan), 3);  // lm_head, w1, w3
}

TEST_F(CPlan, CastsAndRenames) {
  const char* keep[] = {"lm_head.*"};
  const char* renames[] = {"^model\\.=base."};
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.dtype = "F32";
  options.keep_dtype = keep;
  options.keep_dtype_count = 1;
  options.renames = renames;
  options.rename_count = 1;
  options.mapping = "none";
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source_, &options, &plan.handle, nullptr), WL_OK);
  wl_tensor target = WL_TENSOR_DEFAULT;
  ASSERT_EQ(wl_plan_target(plan, wl_plan_find_target(plan, "lm_head.weight"), &target, nullptr),
            WL_OK);
  EXPECT_STREQ(target.dtype, "BF16");
  const char* gate = "base.layers.0.block_sparse_moe.gate.weight";
  ASSERT_EQ(wl_plan_target(plan, wl_plan_find_target(plan, gate), &target, nullptr), WL_OK);
  EXPECT_STREQ(target.dtype, "F32");
  EXPECT_EQ(target.size_bytes, 2 * 4 * 4);
}

TEST_F(CPlan, WrongWordsAreRefusedWithTheRightOnes) {
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.to = "nowhere";
  EXPECT_EQ(create(options).message, "options.to: 'nowhere' is none of same, hub, runtime");
  options.to = nullptr;
  options.from = "";
  EXPECT_EQ(create(options).message, "options.from: '' is none of auto, hub, runtime");
  options.from = nullptr;
  options.dtype = "I8";
  EXPECT_EQ(create(options).message, "options.dtype: 'I8' is none of keep, BF16, F16, F32, F64");
  options.dtype = nullptr;
  options.mapping = "mixtrall";
  const Outcome outcome = create(options);
  EXPECT_EQ(outcome.status, WL_ERROR_MAPPING);
  EXPECT_THAT(outcome.message, HasSubstr("did you mean mixtral?"));
}

TEST_F(CPlan, NullWhereAListShouldBeIsRefused) {
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.include_count = 1;
  EXPECT_EQ(create(options).message, "options.include is NULL");
  const char* globs[] = {"a", nullptr};
  options.include = globs;
  options.include_count = 2;
  EXPECT_EQ(create(options).message, "options.include is NULL");
  EXPECT_EQ(wl_plan_create(nullptr, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_plan_create(source_, nullptr, nullptr, nullptr), WL_ERROR_USAGE);
  EXPECT_EQ(wl_plan_is_refused(nullptr), -1);
  EXPECT_EQ(wl_plan_target_count(nullptr), -1);
  EXPECT_EQ(wl_plan_find_target(nullptr, "a"), -1);
}

TEST_F(CPlan, OptionsOfALaterHeaderAreRefusedWhenTheyAreUsed) {
  struct Later {
    wl_plan_options known;
    const char* later;
  };
  Later later = {WL_PLAN_OPTIONS_DEFAULT, nullptr};
  later.known.struct_size = sizeof(Later);
  EXPECT_EQ(create(later.known).status, WL_OK);
  later.later = "on";
  const Outcome outcome = create(later.known);
  EXPECT_EQ(outcome.status, WL_ERROR_UNSUPPORTED);
  EXPECT_THAT(outcome.message, HasSubstr("a member that this version of the library has not"));
}

TEST_F(CPlan, WhatIsWrongWithTensorsRefusesThePlanAndListsAll) {
  TemporaryFolder holed;
  write_safetensors(
      holed / "model.safetensors",
      {{"model.layers.0.block_sparse_moe.experts.0.w1.weight", DType::U8, {1, 1}, "x"}});
  write_file(holed / "config.json", R"({"model_type": "mixtral"})");
  OwnedCheckpoint source;
  ASSERT_EQ(wl_checkpoint_open(holed.path().c_str(), 1, &source.handle, nullptr), WL_OK);
  wl_plan_options options = WL_PLAN_OPTIONS_DEFAULT;
  options.to = "runtime";
  OwnedPlan plan;
  ASSERT_EQ(wl_plan_create(source, &options, &plan.handle, nullptr), WL_OK);
  EXPECT_EQ(wl_plan_is_refused(plan), 1);
  EXPECT_THAT(wl_plan_findings_json(plan), HasSubstr("missing_source"));
  const Outcome outcome = outcome_of([&](wl_error** error) {
    return wl_plan_load_into(plan, nullptr, 0, nullptr, nullptr, error);
  });
  EXPECT_EQ(outcome.status, WL_ERROR_PLAN);
  EXPECT_THAT(outcome.findings, HasSubstr("missing_source"));
}

TEST_F(CPlan, ThreadsShareHandles) {
  std::vector<std::thread> threads;
  std::vector<int64_t> counts(4);
  for (int64_t& count : counts) {
    threads.emplace_back([&] {
      OwnedPlan plan;
      EXPECT_EQ(wl_plan_create(source_, nullptr, &plan.handle, nullptr), WL_OK);
      count = wl_plan_target_count(plan);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts, ::testing::Each(wl_checkpoint_tensor_count(source_)));
}

}  // namespace
}  // namespace weightloom::testing
