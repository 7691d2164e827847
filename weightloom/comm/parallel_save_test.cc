#include "weightloom/comm/parallel_save.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/parallel_save_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRows = R"([{"pattern": "*", "placements": [{"axis": "fsdp", "shard": 0}]}])";
// Experts by ep; gate and up each cut by tp, down along its last dim; the rest is held twice, cut
// by tp only, or whole on all ranks.
constexpr const char* kExperts = R"([
  {"pattern": "*.experts.gate_up_proj", "placements": [
    {"axis": "ep", "shard": 0}, {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}]},
  {"pattern": "*.experts.down_proj", "placements": [
    {"axis": "ep", "shard": 0}, {"axis": "tp", "shard": 2}]},
  {"pattern": "lm_head*", "placements": [{"axis": "tp", "shard": 0}]},
  {"pattern": "*", "placements": []}])";

struct Case {
  std::string mesh;
  const char* placements;
  TinyModel model;
};

/// The least and the most that ranks wrote, and what they sent to others, of one save.
struct Shares {
  int64_t least = 0;
  int64_t most = 0;
  int64_t sent = 0;
};

Shares save_and_compare(ProcessGroup& group, const Case& one) {
  const GroupFolder folder(group);
  if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, one.model));
  group.barrier();
  const LoadedState loaded =
      load_part(folder / "hub", spread(one.mesh, one.placements, Side::runtime), group.rank());
  const Registry registry = Registry::built_in();
  ParallelSave save(group, loaded.state, registry, to_hub());
  const ParallelSaveReport report = save.save(loaded.local, folder / "saved");
  EXPECT_EQ(read_tensors(folder / "saved"), read_tensors(folder / "hub"));
  EXPECT_EQ(read_whole_file(system_calls(), folder / "saved/config.json"),
            read_whole_file(system_calls(), folder / "hub/config.json"));
  EXPECT_LE(report.peak_working_bytes, to_hub().run.memory_budget_bytes);
  EXPECT_EQ(group.all_reduce(Reduction::sum, report.bytes_written), report.target_bytes);
  return {group.all_reduce(Reduction::min, report.bytes_written),
          group.all_reduce(Reduction::max, report.bytes_written),
          group.all_reduce(Reduction::sum, report.bytes_sent)};
}

TEST(ParallelSaveTest, RowsOfWholeFilesAreWrittenWhereTheyAre) {
  on_every_rank([](ProcessGroup& group) {
    // An expert a rank, of 256 KiB a tensor: every run is long.
    const Shares shares = save_and_compare(
        group, {"fsdp=4", kRows, {.layers = 2, .experts = 4, .hidden = 256, .ffn = 512}});
    EXPECT_LT(shares.sent, 20'000) << "the small tensors only";
    EXPECT_LT(shares.most, 2 * shares.least);
  });
}

TEST(ParallelSaveTest, ShortRunsAreExchangedFirst) {
  on_every_rank([](ProcessGroup& group) {
    const Shares shares = save_and_compare(
        group, {"ep=2,tp=2", kExperts, {.layers = 2, .experts = 4, .hidden = 128, .ffn = 256}});
    EXPECT_GT(shares.sent, 0);
    EXPECT_LT(shares.most, 2 * shares.least);
  });
}

TEST(ParallelSaveTest, UnevenAndEmptyPartsComeTogether) {
  on_every_rank([](ProcessGroup& group) {
    save_and_compare(group, {"fsdp=4", kRows, {.layers = 1, .experts = 3, .hidden = 5, .ffn = 7}});
    save_and_compare(group, {"ep=2,tp=2", kExperts, {.experts = 3, .hidden = 6, .ffn = 5}});
  });
}

TEST(ParallelSaveTest, APlannedSaveIsMadeAgainAndReplacesTheOneBefore) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    const TinyModel model{.layers = 1, .experts = 2, .hidden = 8, .ffn = 8};
    if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, model));
    group.barrier();
    LoadedState loaded =
        load_part(folder / "hub", spread("fsdp=4", kRows, Side::runtime), group.rank());
    const Registry registry = Registry::built_in();
    ParallelSaveOptions options = to_hub();
    ParallelSave first(group, loaded.state, registry, options);
    first.save(loaded.local, folder / "saved");
    const auto refusal = refusal_of([&] { first.save(loaded.local, folder / "saved"); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::exists);
    options.output.overwrite = true;
    ParallelSave again(group, loaded.state, registry, options);
    for (const std::span<std::byte> tensor : loaded.memory.tensors) {
      std::ranges::fill(tensor, std::byte{7});
    }
    again.save(loaded.local, folder / "saved");
    for (const auto& [name, text] : read_tensors(folder / "saved")) {
      EXPECT_TRUE(text.ends_with('\7')) << name;
      EXPECT_NE(text, read_tensors(folder / "hub").at(name));
    }
  });
}

void save_sharded_and_compare(ProcessGroup& group, const Case& one) {
  const GroupFolder folder(group);
  if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, one.model));
  group.barrier();
  const Selection selection = spread(one.mesh, one.placements, Side::runtime);
  const LoadedState loaded = load_part(folder / "hub", selection, group.rank());
  const Registry registry = Registry::built_in();
  ParallelSaveOptions options = to_hub();
  options.selection.to.reset();
  options.sharded = true;
  ParallelSave save(group, loaded.state, registry, options);
  const ParallelSaveReport report = save.save(loaded.local, folder / "parts");
  EXPECT_EQ(report.bytes_sent, 0);
  int64_t mine = 0;
  for (const LocalTensorBytes& tensor : loaded.local) mine += std::ssize(tensor.bytes);
  EXPECT_EQ(report.bytes_written, mine) << "each rank writes its own file";
  if (group.rank() != 0) return;
  const Checkpoint parts = Checkpoint::open(system_calls(), folder / "parts");
  EXPECT_EQ(std::ssize(parts.files()), group.size());
  Selection back;
  back.to = Side::hub;
  back.from = Side::runtime;
  const Conversion whole = plan_conversion(system_calls(), parts, back, registry);
  convert(system_calls(), parts, whole, false, folder / "back", {}, {});
  EXPECT_EQ(read_tensors(folder / "back"), read_tensors(folder / "hub"));
}

TEST(ParallelSaveTest, AShardedFolderIsWrittenEachFileByItsRank) {
  on_every_rank([](ProcessGroup& group) {
    save_sharded_and_compare(group,
                             {"fsdp=4", kRows, {.layers = 1, .experts = 3, .hidden = 5, .ffn = 7}});
    save_sharded_and_compare(
        group, {"ep=2,tp=2", kExperts, {.layers = 2, .experts = 4, .hidden = 128, .ffn = 256}});
  });
}

TEST(ParallelSaveTest, AShardedFolderMayBeOverOtherMeshes) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    const TinyModel model{.layers = 1, .experts = 3, .hidden = 6, .ffn = 5};
    if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, model));
    group.barrier();
    const LoadedState loaded =
        load_part(folder / "hub", spread("fsdp=4", kRows, Side::runtime), group.rank());
    const Registry registry = Registry::built_in();
    ParallelSaveOptions options = to_hub();
    options.selection = spread("ep=2,tp=3", kExperts, Side::runtime);
    options.selection.from = Side::runtime;
    ParallelSave save(group, loaded.state, registry, options);
    save.save(loaded.local, folder / "parts");
    if (group.rank() != 0) return;
    const Checkpoint parts = Checkpoint::open(system_calls(), folder / "parts");
    EXPECT_EQ(parts.files().size(), 6U);
    Selection back;
    back.from = Side::runtime;
    back.to = Side::hub;
    const Conversion whole = plan_conversion(system_calls(), parts, back, registry);
    convert(system_calls(), parts, whole, false, folder / "back", {}, {});
    EXPECT_EQ(read_tensors(folder / "back"), read_tensors(folder / "hub"));
  });
}

/// Saves once, then again with faults; the first save must still stand.
void expect_old_checkpoint_after(ProcessGroup& group, const FaultSyscalls& faulty, ErrorCode code) {
  const GroupFolder folder(group);
  const TinyModel model{.layers = 1, .experts = 4, .hidden = 128, .ffn = 256};
  if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, model));
  group.barrier();
  const LoadedState loaded =
      load_part(folder / "hub", spread("ep=2,tp=2", kExperts, Side::runtime), group.rank());
  const Registry registry = Registry::built_in();
  ParallelSaveOptions options = to_hub();
  options.output.overwrite = true;
  ParallelSave sound(group, loaded.state, registry, options);
  sound.save(loaded.local, folder / "saved");
  const Folder before = read_folder(folder / "saved").value();
  group.barrier();
  ParallelSave broken(group, loaded.state, registry, options, faulty);
  const auto refusal = refusal_of([&] { broken.save(loaded.local, folder / "saved"); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), code) << refusal->what();
  group.barrier();
  EXPECT_EQ(read_folder(folder / "saved").value(), before);
  EXPECT_FALSE(status_of(system_calls(), folder / ".saved.weightloom-work"));
  group.barrier();
}

TEST(ParallelSaveTest, AWriteThatFailsOnOneRankLeavesTheOldCheckpoint) {
  on_every_rank([](ProcessGroup& group) {
    for (const int64_t rank : {0, 1, 3}) {
      FaultSyscalls faulty;
      if (group.rank() == rank) faulty.fail_every(CallKind::pwrite, ENOSPC);
      expect_old_checkpoint_after(group, faulty, ErrorCode::no_space);
    }
  });
}

TEST(ParallelSaveTest, AFileThatDoesNotBecomeDurableLeavesTheOldCheckpoint) {
  on_every_rank([](ProcessGroup& group) {
    for (const int64_t rank : {0, 2}) {
      FaultSyscalls faulty;
      if (group.rank() == rank) {
        faulty.fail_every(CallKind::fsync, EIO);
        faulty.fail_every(CallKind::fdatasync, EIO);
      }
      expect_old_checkpoint_after(group, faulty, ErrorCode::io);
    }
  });
}

TEST(ParallelSaveTest, WhatARankDoesNotHoldIsRefusedOnAll) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    if (group.rank() == 0) write_folder(folder / "hub", hub_files());
    group.barrier();
    LoadedState loaded =
        load_part(folder / "hub", spread("fsdp=4", kRows, Side::runtime), group.rank());
    const Registry registry = Registry::built_in();
    ParallelSave save(group, loaded.state, registry, to_hub());
    if (group.rank() == 1) {
      loaded.local[0].name = "nonsense";
      loaded.local[1].bytes = {};
    }
    const auto refusal = refusal_of([&] { save.save(loaded.local, folder / "saved"); });
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code(), ErrorCode::usage);
    EXPECT_EQ(refusal->findings().size(), 3U);
    EXPECT_THAT(refusal->what(),
                HasSubstr("rank 1: tensor 'lm_head.weight': is not given, and this rank holds"));
    EXPECT_FALSE(status_of(system_calls(), folder / "saved"));
  });
}

TEST(ParallelSaveTest, RanksMustDescribeOneState) {
  on_every_rank([](ProcessGroup& group) {
    const GroupFolder folder(group);
    if (group.rank() == 0) write_folder(folder / "hub", hub_files());
    group.barrier();
    const Registry registry = Registry::built_in();
    LoadedState loaded =
        load_part(folder / "hub", spread("fsdp=4", kRows, Side::runtime), group.rank());
    if (group.rank() == 3) loaded.state.manifest.tensors[0].shape[0] += 1;
    const auto differs = refusal_of([&] { ParallelSave(group, loaded.state, registry, to_hub()); });
    ASSERT_TRUE(differs);
    EXPECT_THAT(differs->what(), HasSubstr("rank 3: the plan of the save is not that of rank 0"));
    loaded.state.manifest.meshes = MeshSet::parse("fsdp=2");
    const auto other = refusal_of([&] { ParallelSave(group, loaded.state, registry, to_hub()); });
    ASSERT_TRUE(other);
    EXPECT_THAT(other->what(), HasSubstr("is of 2 ranks (fsdp=2), and the group has 4"));
  });
}

}  // namespace
}  // namespace weightloom::testing
