// Conversions under faults: every call failing, every call the last one before a kill or a power
// cut. After each, DST is exactly the old or exactly the new one, and the next run succeeds.
#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/sharing_disk_testing.h"

namespace weightloom::testing {
namespace {

/// A conversion that the tests run again and again in new folders.
struct Story {
  std::string name;
  std::string destination;
  std::optional<Folder> old;  // what is at the destination before; a single file under ""
  bool own_source = false;    // the destination is the source
  int64_t max_shard_bytes = 150;
  TinyModel model = {};
  bool renames = false;  // lm_head alone, in the layout and the files of the source
  bool kernel_copies = false;
};

Folder source_files(const TinyModel& model = {}) { return hub_files(150, model); }

std::vector<Story> stories() {
  Folder old = checkpoint_files({{"old", DType::U8, {7}}, {"older", DType::U8, {9}}}, 8);
  old["notes.txt"] = "mine";
  old["sub/deep.txt"] = "mine too";
  return {{"NewFolder", "dst", std::nullopt},
          {"ExistingFolder", "dst", old},
          {"EmptyFolder", "dst", Folder{}},
          {"NewFile", "dst.safetensors", std::nullopt},
          {"ExistingFile", "dst.safetensors", Folder{{"", "the old file"}}},
          {"OwnSource", "src", source_files(), true},
          // Tensors of whole pages, which are written past the page cache where that is possible.
          {"Pages", "dst", old, false, 30'000, {.hidden = 64, .ffn = 48}},
          {.name = "Renamed", .destination = "dst", .old = old, .renames = true},
          {.name = "RenamedOwnSource",
           .destination = "src",
           .old = source_files(),
           .own_source = true,
           .renames = true},
          {.name = "CopiedByTheKernel",
           .destination = "dst",
           .old = old,
           .renames = true,
           .kernel_copies = true}};
}

const Syscalls& disk_of(const Story& story) {
  static const SharingDisk sharing(quick_calls());
  return story.kernel_copies ? sharing : quick_calls();
}

/// A new place with the story's source and old destination in it.
class Stage {
 public:
  explicit Stage(const Story& story) : story_(story) {
    write_folder(folder_ / "src", source_files(story.model));
    if (!story.old || story.own_source) return;
    if (story.old->contains("")) {
      write_text(destination(), story.old->at(""));
    } else {
      write_folder(destination(), *story.old);
    }
  }

  std::string destination() const { return folder_ / story_.destination; }
  /// What is linked or copied must not be written through.
  bool has_source() const {
    return story_.own_source || read_folder(folder_ / "src") == source_files(story_.model);
  }
  std::optional<Folder> now() const { return read_folder(destination()); }
  bool is_old() const { return now() == story_.old; }
  std::vector<std::string> names() const { return list_folder(system_calls(), folder_.path()); }
  bool has_work() const { return status_of(system_calls(), work()).has_value(); }
  std::string work() const { return folder_ / ("." + story_.destination + ".weightloom-work"); }

  Job the_job(bool resume = false) const {
    Job result = job(folder_ / "src", destination(), Side::runtime);
    result.output.max_shard_bytes = story_.max_shard_bytes;
    result.output.max_shard_given = true;
    if (story_.renames) {
      result.selection.to.reset();
      result.selection.renames = {{"^(lm_)?head", "head"}};  // may run on its own result
      result.output.max_shard_given = false;
    }
    result.output.overwrite = story_.old.has_value();
    result.output.resume = resume;
    return result;
  }

 private:
  const Story& story_;
  TemporaryFolder folder_{fast_temporary_parent()};
};

/// Names of files that differ.
std::string differing(const std::optional<Folder>& a, const std::optional<Folder>& b) {
  if (!a || !b) return a || b ? "one is missing" : "";
  std::string names;
  for (const auto& [name, text] : *a) {
    if (!b->contains(name) || b->at(name) != text) names += name + " ";
  }
  for (const auto& [name, text] : *b) {
    if (!a->contains(name)) names += "-" + name + " ";
  }
  return names;
}

/// What an undisturbed run makes, and how many calls it takes.
struct Reference {
  std::optional<Folder> made;
  int64_t calls = 0;
};

Reference reference_of(const Story& story) {
  const Stage stage(story);
  const FaultSyscalls calls(disk_of(story));
  run(stage.the_job(), calls);
  EXPECT_FALSE(stage.has_work());
  return {stage.now(), calls.calls()};
}

class ConvertFaultsTest : public ::testing::TestWithParam<Story> {
 protected:
  /// Calls `check(stage, calls, number)` with each call number of an undisturbed run.
  void at_each_call(const std::function<void(const Stage&, FaultSyscalls&, int64_t)>& check) {
    for (int64_t number = 0; number < reference_.calls && !HasFailure(); ++number) {
      SCOPED_TRACE(::testing::Message() << "call " << number << " of " << reference_.calls);
      const Stage stage(GetParam());
      FaultSyscalls calls(disk_of(GetParam()));
      check(stage, calls, number);
    }
  }

  bool is_old_or_new(const Stage& stage) const {
    EXPECT_TRUE(stage.has_source());
    return stage.is_old() || stage.now() == reference_.made;
  }

  /// Runs the job; true if it ends without an error.
  static bool succeeds(const Stage& stage, const Syscalls& calls, bool resume = false) {
    return !refusal_of([&] { run(stage.the_job(resume), calls); });
  }

  /// After a kill: --resume must end with the files of an undisturbed run.
  void expect_resumes(const Stage& stage) const {
    // Of a run killed between removing its journal and its empty work folder nothing is left to do.
    const bool finished =
        stage.now() == reference_.made && (!stage.has_work() || read_folder(stage.work())->empty());
    if (finished) return;
    const auto error = refusal_of([&] { run(stage.the_job(true), disk_of(GetParam())); });
    EXPECT_FALSE(error) << error->what();
    EXPECT_EQ(differing(stage.now(), reference_.made), "");
    EXPECT_FALSE(stage.has_work());
  }

  const Reference reference_ = reference_of(GetParam());
};

TEST_P(ConvertFaultsTest, EveryFailingCallLeavesTheOldOrTheNewAndTheNextRunSucceeds) {
  for (int error_number : {EIO, ENOSPC}) {
    const ErrorCode expected = error_number == EIO ? ErrorCode::io : ErrorCode::no_space;
    at_each_call([&](const Stage& stage, FaultSyscalls& calls, int64_t number) {
      calls.fail_call(number, error_number);
      const auto error = refusal_of([&] { run(stage.the_job(), calls); });
      if (!error) {  // a hint, or the clearing up
        EXPECT_EQ(differing(stage.now(), reference_.made), "");
        return;
      }
      EXPECT_EQ(error->code(), expected) << error->what();
      EXPECT_TRUE(is_old_or_new(stage)) << error->what();
      EXPECT_LE(stage.names().size(), 3U);
      if (!stage.is_old() && !GetParam().old) return;  // published: refused as existing
      EXPECT_TRUE(succeeds(stage, disk_of(GetParam())));
      EXPECT_FALSE(stage.has_work());
      EXPECT_EQ(differing(stage.now(), reference_.made), "");
    });
  }
}

TEST_P(ConvertFaultsTest, ARunKilledAtAnyCallIsResumed) {
  at_each_call([&](const Stage& stage, FaultSyscalls& calls, int64_t number) {
    calls.crash_at(number);
    succeeds(stage, calls);
    EXPECT_TRUE(is_old_or_new(stage));
    expect_resumes(stage);
  });
}

TEST_P(ConvertFaultsTest, ARunKilledAtAnyCallIsDoneAgainWithoutResume) {
  at_each_call([&](const Stage& stage, FaultSyscalls& calls, int64_t number) {
    calls.crash_at(number);
    succeeds(stage, calls);
    const bool published = !stage.is_old();
    const auto error = refusal_of([&] { run(stage.the_job(), disk_of(GetParam())); });
    if (published && !GetParam().old) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::exists);
      return;
    }
    EXPECT_FALSE(error) << error->what();
    EXPECT_FALSE(stage.has_work());
    EXPECT_EQ(differing(stage.now(), reference_.made), "");
  });
}

TEST_P(ConvertFaultsTest, APowerCutAtAnyCallLeavesTheOldOrTheNew) {
  at_each_call([&](const Stage& stage, FaultSyscalls& calls, int64_t number) {
    calls.crash_at(number);
    succeeds(stage, calls);
    calls.lose_unsynced_data();
    EXPECT_TRUE(is_old_or_new(stage));
    expect_resumes(stage);
  });
}

TEST_P(ConvertFaultsTest, ASecondPowerCutDuringTheResumeIsResumedToo) {
  at_each_call([&](const Stage& stage, FaultSyscalls& calls, int64_t number) {
    calls.crash_at(number);
    succeeds(stage, calls);
    calls.lose_unsynced_data();
    FaultSyscalls again(disk_of(GetParam()));
    again.crash_at(reference_.calls - number);
    succeeds(stage, again, true);
    again.lose_unsynced_data();
    EXPECT_TRUE(is_old_or_new(stage));
    expect_resumes(stage);
  });
}

TEST_P(ConvertFaultsTest, WhatARunHasReportedDoneSurvivesAPowerCut) {
  const Stage stage(GetParam());
  FaultSyscalls calls(disk_of(GetParam()));
  run(stage.the_job(), calls);
  calls.lose_unsynced_data();
  EXPECT_EQ(differing(stage.now(), reference_.made), "");
}

TEST_P(ConvertFaultsTest, ShortTransfersAndSignalsChangeNothing) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Stage stage(GetParam());
    FaultSyscalls calls(disk_of(GetParam()));
    calls.shorten_transfers(7, seed);
    run(stage.the_job(), calls);
    EXPECT_EQ(differing(stage.now(), reference_.made), "");
  }
}

TEST_P(ConvertFaultsTest, KindsOfCallsThatAlwaysFailLeaveTheOld) {
  for (CallKind kind : {CallKind::fsync, CallKind::pwrite, CallKind::mkdir, CallKind::open,
                        CallKind::fallocate, CallKind::lstat}) {
    if (kind == CallKind::fallocate && GetParam().kernel_copies) continue;  // nothing is reserved
    const Stage stage(GetParam());
    FaultSyscalls calls(disk_of(GetParam()));
    calls.fail_every(kind, EIO);
    EXPECT_FALSE(succeeds(stage, calls));
    EXPECT_TRUE(stage.is_old());
    EXPECT_TRUE(succeeds(stage, disk_of(GetParam())));
    EXPECT_EQ(differing(stage.now(), reference_.made), "");
  }
}

TEST_P(ConvertFaultsTest, AStepIntoPlaceThatAlwaysFailsLeavesTheOld) {
  const Stage stage(GetParam());
  FaultSyscalls calls(disk_of(GetParam()));
  for (CallKind kind : {CallKind::rename, CallKind::rename_new, CallKind::exchange}) {
    calls.fail_every(kind, EIO);
  }
  EXPECT_FALSE(succeeds(stage, calls));
  EXPECT_TRUE(stage.is_old());
  EXPECT_TRUE(succeeds(stage, disk_of(GetParam()), true));
  EXPECT_EQ(differing(stage.now(), reference_.made), "");
}

TEST_P(ConvertFaultsTest, AFilesystemWithoutReservationServes) {
  const Stage stage(GetParam());
  FaultSyscalls calls(disk_of(GetParam()));
  calls.fail_every(CallKind::fallocate, EOPNOTSUPP);
  run(stage.the_job(), calls);
  EXPECT_EQ(differing(stage.now(), reference_.made), "");
}

INSTANTIATE_TEST_SUITE_P(Stories, ConvertFaultsTest, ::testing::ValuesIn(stories()),
                         [](const auto& story) { return story.param.name; });

}  // namespace
}  // namespace weightloom::testing
