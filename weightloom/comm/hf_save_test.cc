#include "weightloom/comm/hf_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/hf_items_testing.h"
#include "weightloom/comm/parallel_save_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a test expects in a folder: the keys of RankModel.
void expect_whole_model(const std::string& folder) {
  const Checkpoint made = Checkpoint::open(system_calls(), folder);
  ASSERT_EQ(made.tensors().size(), 5U);
  const auto tensors = read_tensors(folder);
  for (int32_t expert = 0; expert < 4; ++expert) {
    const std::vector<int32_t> rows =
        rows_of({12, 2}, 0, {{int64_t{expert} * 3, int64_t{expert} * 3 + 3}});
    const std::string& stored = tensors.at("e" + std::to_string(expert));
    EXPECT_EQ(stored.substr(stored.size() - 24),
              std::string(reinterpret_cast<const char*>(rows.data()), 24));
  }
  const std::vector<int32_t> norm = {0, 1, 2, 3, 4};
  const std::string& stored = tensors.at("model.norm");
  EXPECT_EQ(stored.substr(stored.size() - 20),
            std::string(reinterpret_cast<const char*>(norm.data()), 20));
}

TEST(HFSaveTest, EachKeyIsWrittenByOneRank) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    const RankModel model(group.rank(), {.distributed_save = true});
    const HFSaveReport report =
        save_hf_tensors(groups, model.items, folder / "saved", {.texts = {{"config.json", "{}"}}});
    EXPECT_EQ(report.targets, 5);
    EXPECT_EQ(report.target_bytes, 4 * 24 + 20);
    EXPECT_EQ(report.files.size(), 4U) << "one of each writer";
    // The norm goes to rank 0, which has nothing as yet; each rank writes one of four experts.
    EXPECT_EQ(report.bytes_written, group.rank() == 0 ? 44 : 24);
    group.barrier();
    expect_whole_model(folder / "saved");
    EXPECT_EQ(read_whole_file(system_calls(), folder / "saved/config.json"), "{}");
    EXPECT_FALSE(status_of(system_calls(), folder / ".saved.weightloom-work"));
  });
}

TEST(HFSaveTest, FewWritersSmallBucketsAndSmallFilesGiveTheSame) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    const RankModel model(group.rank());
    const HFSaveReport report =
        save_hf_tensors(groups, model.items, folder / "saved",
                        {.bucket_bytes = 1, .slice_bytes = 8, .max_save_rank = 2});
    EXPECT_EQ(report.files.size(), 2U);
    EXPECT_EQ(report.bytes_written > 0, group.rank() < 2);
    group.barrier();
    expect_whole_model(folder / "saved");
    group.barrier();
    const HFSaveReport one = save_hf_tensors(groups, model.items, folder / "one",
                                             {.max_save_rank = 1, .max_shard_bytes = 30});
    EXPECT_EQ(one.files.size(), 5U);
    group.barrier();
    expect_whole_model(folder / "one");
    group.barrier();
    const HFSaveReport whole =
        save_hf_tensors(groups, model.items, folder / "whole", {.max_save_rank = 1});
    EXPECT_THAT(whole.files, ElementsAre("model.safetensors"));
  });
}

TEST(HFSaveTest, WhatStandsBesideAReplacedCheckpointStays) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    const RankModel model(group.rank());
    save_hf_tensors(groups, model.items, folder / "saved", {.texts = {{"config.json", "{}"}}});
    if (group.rank() == 0) {
      write_text(folder / "saved/tokenizer.json", "words");
      write_text(folder / "saved/weightloom.json", "the record of what was there");
    }
    group.barrier();
    save_hf_tensors(groups, model.items, folder / "saved",
                    {.max_save_rank = 1, .overwrite = true, .texts = {{"config.json", "[]"}}});
    group.barrier();
    const Folder files = read_folder(folder / "saved").value();
    EXPECT_EQ(files.size(), 3U) << "one file of tensors";
    EXPECT_EQ(files.at("tokenizer.json"), "words");
    EXPECT_EQ(files.at("config.json"), "[]");
    expect_whole_model(folder / "saved");
  });
}

TEST(HFSaveTest, APlanThatKeepsShardsIsRefused) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    const RankModel model(group.rank(), {.preserve_process_group = ep_group(group.rank())});
    const auto refusal =
        refusal_of([&] { save_hf_tensors(groups, model.items, folder / "saved"); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::usage);
    EXPECT_THAT(refusal->what(), HasSubstr("tensor 'experts': its plan gives a part"));
    EXPECT_FALSE(status_of(system_calls(), folder / "saved"));
  });
}

TEST(HFSaveTest, RanksThatNameOtherKeysAreRefused) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    RankModel model(group.rank());
    if (group.rank() == 2) model.items[0].plan.hf_keys[0] = "other.norm";
    const auto refusal =
        refusal_of([&] { save_hf_tensors(groups, model.items, folder / "saved"); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::plan);
  });
}

TEST(HFSaveTest, AWriteThatFailsOnOneRankLeavesTheOldCheckpoint) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    GroupCache groups(group);
    const RankModel model(group.rank());
    save_hf_tensors(groups, model.items, folder / "saved");
    FaultSyscalls faulty;
    if (group.rank() == 3) faulty.fail_every(CallKind::pwrite, ENOSPC);
    const auto refusal = refusal_of([&] {
      save_hf_tensors(groups, model.items, folder / "saved", {.overwrite = true}, faulty);
    });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::no_space) << refusal->what();
    group.barrier();
    expect_whole_model(folder / "saved");
    EXPECT_FALSE(status_of(system_calls(), folder / ".saved.weightloom-work"));
    group.barrier();
  });
}

}  // namespace
}  // namespace weightloom::testing
