// What --resume accepts, refuses and skips.
#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/journal_internal.h"
#include "weightloom/execute/sharing_disk_testing.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() { write_folder(at("hub"), hub_files(100)); }

  std::string at(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> names() const { return list_folder(system_calls(), folder_.path()); }

  Job the_job(bool resume) const {
    Job result = job(at("hub"), at("out"), Side::runtime);
    result.output.max_shard_bytes = 60;  // four shards, a tile each
    result.output.max_shard_given = true;
    result.output.resume = resume;
    return result;
  }

  /// Ends a run at call `number` of a kind, as a kill would.
  void interrupt(const Job& job, CallKind kind, int64_t number) const {
    FaultSyscalls calls(quick_calls());
    calls.fail_call(kind, number, EIO);
    EXPECT_EQ(refusal_of([&] { run(job, calls); }).value().code(), ErrorCode::io);
    EXPECT_THAT(names(), ElementsAre(".out.weightloom-work", "hub"));
  }
  /// After three of four shards are durable: their fsyncs follow the journal's.
  void interrupt_after_three_shards() const { interrupt(the_job(false), CallKind::fsync, 4); }

  static std::string first_shard(const std::string& folder) {
    for (const std::string& name : list_folder(system_calls(), folder)) {
      if (name.starts_with("model-00001-")) return join_path(folder, name);
    }
    return "";
  }

  Folder whole() const {
    Job other = the_job(false);
    other.destination = at("whole");
    run(other);
    Folder files = read_folder(at("whole")).value();
    remove_all(system_calls(), at("whole"));
    return files;
  }

  TemporaryFolder folder_;
};

TEST_F(ResumeTest, MakesOnlyWhatIsNotDurableYet) {
  interrupt_after_three_shards();
  const ConvertReport report = run(the_job(true));
  EXPECT_GT(report.resumed_bytes, 0);
  EXPECT_EQ(report.resumed_bytes + report.bytes_written, 360);
  EXPECT_EQ(read_folder(at("out")), whole());
  EXPECT_THAT(names(), ElementsAre("hub", "out"));
}

TEST_F(ResumeTest, ProgressCountsWhatWasMadeBefore) {
  interrupt_after_three_shards();
  Job resumed = the_job(true);
  int64_t last = 0;
  int64_t first = 0;
  resumed.run.progress = [&](const Progress& progress) {
    if (first == 0) first = progress.bytes_done;
    last = progress.bytes_done;
  };
  const ConvertReport report = run(resumed);
  EXPECT_GT(first, report.resumed_bytes);
  EXPECT_EQ(last, 360);
}

TEST_F(ResumeTest, AFailureThatLeavesWorkSaysSo) {
  FaultSyscalls calls(quick_calls());
  calls.fail_call(CallKind::fsync, 4, EIO);
  const auto error = refusal_of([&] { run(the_job(false), calls); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("what is done so far is kept in"));
  EXPECT_THAT(error->what(), HasSubstr(".out.weightloom-work"));
  EXPECT_THAT(error->next_step(), HasSubstr("--resume"));
}

TEST_F(ResumeTest, AFailureBeforeAnythingIsDoneLeavesNothing) {
  for (int error_number : {EMFILE, ENAMETOOLONG, EIO}) {
    FaultSyscalls calls(quick_calls());
    calls.fail_call(CallKind::fallocate, 2, error_number);
    const auto error = refusal_of([&] { run(the_job(false), calls); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io);
    EXPECT_THAT(names(), ElementsAre("hub"));
  }
}

TEST_F(ResumeTest, AKernelCopyThatIsDoneIsNotDoneAgain) {
  const SharingDisk disk(quick_calls());
  Job renamed = the_job(false);
  renamed.selection.to.reset();
  renamed.selection.renames = {{"^lm_head", "head"}};
  renamed.output.max_shard_given = false;
  FaultSyscalls calls(disk);
  calls.fail_every(CallKind::rename_new, EIO);
  EXPECT_TRUE(refusal_of([&] { run(renamed, calls); }));
  renamed.output.resume = true;
  FaultSyscalls again(disk);
  EXPECT_EQ(run(renamed, again).files_copied, 1);
  EXPECT_EQ(again.calls(CallKind::copy_file_range), 0);
}

TEST_F(ResumeTest, WithoutAnEarlierRunStarts) {
  run(the_job(true));
  EXPECT_EQ(read_folder(at("out")), whole());
}

TEST_F(ResumeTest, ARunWithoutItStartsOver) {
  interrupt_after_three_shards();
  EXPECT_EQ(run(the_job(false)).resumed_bytes, 0);
  EXPECT_EQ(read_folder(at("out")), whole());
}

TEST_F(ResumeTest, OtherArgumentsAreRefusedAndTheWorkStays) {
  interrupt_after_three_shards();
  Job other = the_job(true);
  other.output.max_shard_bytes = 200;
  const auto error = refusal_of([&] { run(other); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::usage);
  EXPECT_THAT(error->next_step(), HasSubstr("without --resume"));
  EXPECT_GT(run(the_job(true)).resumed_bytes, 0);
}

TEST_F(ResumeTest, AChangedSourceIsRefused) {
  interrupt_after_three_shards();
  const std::string shard = first_shard(at("hub"));
  write_text(shard, read_whole_file(system_calls(), shard));
  EXPECT_EQ(refusal_of([&] { run(the_job(true)); }).value().code(), ErrorCode::usage);
}

TEST_F(ResumeTest, AJournalOfGarbageStartsOver) {
  interrupt_after_three_shards();
  write_text(at(".out.weightloom-work/journal"), "garbage\n");
  EXPECT_EQ(run(the_job(true)).resumed_bytes, 0);
  EXPECT_EQ(read_folder(at("out")), whole());
}

TEST_F(ResumeTest, AFileThatTheJournalCountsOnButIsGoneOrShortStartsOver) {
  for (bool gone : {true, false}) {
    interrupt_after_three_shards();
    const std::string shard = first_shard(at(".out.weightloom-work/out"));
    if (gone) {
      remove_all(system_calls(), shard);
    } else {
      write_text(shard, "short");
    }
    EXPECT_EQ(run(the_job(true)).resumed_bytes, 0);
    EXPECT_EQ(read_folder(at("out")), whole());
    remove_all(system_calls(), at("out"));
  }
}

TEST_F(ResumeTest, MoreTilesThanThereAreStartsOver) {
  interrupt_after_three_shards();
  const std::string path = at(".out.weightloom-work/journal");
  write_text(path, read_whole_file(system_calls(), path) + "tiles 1000\n");
  EXPECT_EQ(run(the_job(true)).resumed_bytes, 0);
  EXPECT_EQ(read_folder(at("out")), whole());
}

TEST_F(ResumeTest, LinksOfTheEarlierRunAreNotWrittenThrough) {
  const Folder mine{{"config.json", "mine"}, {"sub/deep.txt", "mine too"}};
  write_folder(at("out"), mine);
  Job overwriting = the_job(false);
  overwriting.output.overwrite = true;
  FaultSyscalls calls(quick_calls());
  calls.fail_call(CallKind::exchange, 1, EIO);  // the first one is the probe
  EXPECT_TRUE(refusal_of([&] { run(overwriting, calls); }));
  EXPECT_EQ(read_folder(at("out")), mine);
  overwriting.output.resume = true;
  EXPECT_EQ(run(overwriting).resumed_bytes, 360);
  EXPECT_EQ(read_folder(at("out")).value()["sub/deep.txt"], "mine too");
  EXPECT_EQ(read_folder(at("out")).value()["config.json"], config_of({}));
}

TEST_F(ResumeTest, ShardsAndKeptFilesMayShareAFolder) {
  write_text(at("index.json"), R"({"weight_map": {"a": "w/a.safetensors", "b": "b.safetensors"}})");
  write_folder(at("hub"), checkpoint_files({{"a", DType::U8, {3}}, {"b", DType::U8, {4}}}, 3));
  remove_all(system_calls(), at("hub"));
  write_folder(at("hub"), checkpoint_files({{"a", DType::U8, {3}}, {"b", DType::U8, {4}}}));
  write_folder(at("out"), {{"w/notes", "mine"}});
  Job like = job(at("hub"), at("out"), std::nullopt);
  like.output.layout_from = at("index.json");
  like.output.overwrite = true;
  FaultSyscalls calls(quick_calls());
  calls.fail_call(CallKind::exchange, 1, EIO);
  EXPECT_TRUE(refusal_of([&] { run(like, calls); }));
  like.output.resume = true;
  EXPECT_EQ(run(like).resumed_bytes, 7);
  EXPECT_EQ(read_folder(at("out")).value()["w/notes"], "mine");
  EXPECT_EQ(read_tensors(at("out")), read_tensors(at("hub")));
}

TEST_F(ResumeTest, SeesThatTheKilledRunHadPublished) {
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::unlink, EIO);  // nothing can be cleared up: as if killed there
  calls.fail_every(CallKind::rmdir, EIO);
  const ConvertReport left = run(the_job(false), calls);
  ASSERT_EQ(left.findings.size(), 1U);
  EXPECT_EQ(left.findings[0].code, "work_folder_left");
  EXPECT_EQ(left.findings[0].severity, Severity::report);
  const Folder made = read_folder(at("out")).value();
  EXPECT_EQ(refusal_of([&] { run(the_job(false)); }).value().code(), ErrorCode::exists);
  const ConvertReport report = run(the_job(true));
  EXPECT_EQ(report.resumed_bytes, 360);
  EXPECT_EQ(report.bytes_written, 0);
  EXPECT_EQ(read_folder(at("out")), made);
  EXPECT_THAT(names(), ElementsAre("hub", "out"));
}

TEST_F(ResumeTest, APublishedRunOfOtherArgumentsIsNoHindrance) {
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::unlink, EIO);
  calls.fail_every(CallKind::rmdir, EIO);
  run(the_job(false), calls);
  Job other = the_job(true);
  other.output.max_shard_bytes = 200;
  EXPECT_EQ(refusal_of([&] { run(other); }).value().code(), ErrorCode::exists);
  other.output.overwrite = true;
  EXPECT_EQ(run(other).files.size(), 3U);
  EXPECT_THAT(names(), ElementsAre("hub", "out"));
}

TEST_F(ResumeTest, ARunThatFoundNoRoomLeavesNothingUnlessItResumes) {
  FaultSyscalls calls(quick_calls());
  calls.fail_call(CallKind::fallocate, 2, ENOSPC);
  EXPECT_EQ(refusal_of([&] { run(the_job(false), calls); }).value().code(), ErrorCode::no_space);
  EXPECT_THAT(names(), ElementsAre("hub"));
}

}  // namespace
}  // namespace weightloom::testing
