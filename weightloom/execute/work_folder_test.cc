#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/work_folder_internal.h"

namespace weightloom::testing {
namespace {

using ::testing::ElementsAre;

class WorkFolderTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  Folder files(const std::string& name) const { return read_folder(at(name)).value(); }

  /// A prepared work folder with one file in out/.
  WorkFolder prepared(const Syscalls& calls, const std::string& destination) const {
    const bool single_file = destination.ends_with(".safetensors");
    WorkFolder work(calls, at(destination), single_file);
    work.prepare(true);
    work.start_over();
    write_text(join_path(work.out(), single_file ? destination : "new"), "new");
    write_text(work.journal_path(), "journal");
    return work;
  }

  TemporaryFolder folder_;
};

TEST_F(WorkFolderTest, StandsBesideTheDestination) {
  const WorkFolder work(system_calls(), "a/b", false);
  EXPECT_EQ(work.path(), "a/.b.weightloom-work");
  EXPECT_EQ(work.out(), "a/.b.weightloom-work/out");
  EXPECT_EQ(work.journal_path(), "a/.b.weightloom-work/journal");
  EXPECT_EQ(WorkFolder(system_calls(), "b", false).path(), "./.b.weightloom-work");
}

TEST_F(WorkFolderTest, PublishesANewFolderAndANewFile) {
  for (const char* name : {"dst", "dst.safetensors"}) {
    WorkFolder work = prepared(quick_calls(), name);
    const PathIdentity identity = work.identity();
    EXPECT_FALSE(work.is_published(identity));
    work.publish();
    EXPECT_TRUE(work.is_published(identity));
    work.remove();
  }
  EXPECT_EQ(files("dst"), (Folder{{"new", "new"}}));
  EXPECT_EQ(files("dst.safetensors"), (Folder{{"", "new"}}));
  EXPECT_THAT(list_folder(system_calls(), folder_.path()), ElementsAre("dst", "dst.safetensors"));
}

TEST_F(WorkFolderTest, ReplacesAFolderInOneExchange) {
  write_folder(at("dst"), {{"old", "old"}});
  FaultSyscalls calls(quick_calls());
  WorkFolder work = prepared(calls, "dst");
  work.publish();
  EXPECT_EQ(calls.calls(CallKind::exchange), 2);  // the probe and the step
  EXPECT_EQ(files("dst"), (Folder{{"new", "new"}}));
  EXPECT_EQ(files(".dst.weightloom-work/out"), (Folder{{"old", "old"}}));
}

TEST_F(WorkFolderTest, APublishedDestinationSurvivesAPowerCut) {
  write_folder(at("old"), {{"old", "old"}});
  write_text(at("old.safetensors"), "old");
  for (const char* name : {"old", "old.safetensors", "new", "new.safetensors"}) {
    FaultSyscalls calls(quick_calls());
    WorkFolder work = prepared(calls, name);
    sync_tree(calls, work.path());
    work.publish();
    const Folder made = files(name);
    calls.lose_unsynced_data();
    EXPECT_EQ(files(name), made) << name;
  }
}

TEST_F(WorkFolderTest, IsRemovedWithItsJournalLast) {
  FaultSyscalls calls(quick_calls());
  WorkFolder work = prepared(calls, "dst");
  calls.fail_every(CallKind::rmdir, EIO);  // out/ cannot go
  EXPECT_TRUE(refusal_of([&] { work.remove(); }));
  EXPECT_EQ(files(".dst.weightloom-work"), (Folder{{"journal", "journal"}}));
}

TEST_F(WorkFolderTest, StartingOverForgetsWhatWasMade) {
  WorkFolder work = prepared(quick_calls(), "dst");
  work.start_over();
  EXPECT_EQ(files(".dst.weightloom-work"), Folder{});
}

TEST_F(WorkFolderTest, ARefusalForWantOfAnExchangeKeepsAnEarlierRunsWork) {
  write_folder(at("dst"), {{"old", "old"}});
  prepared(quick_calls(), "dst");
  FaultSyscalls calls(quick_calls());
  calls.fail_every(CallKind::exchange, EINVAL);
  WorkFolder again(calls, at("dst"), false);
  EXPECT_EQ(refusal_of([&] { again.prepare(true); }).value().code(), ErrorCode::unsupported);
  EXPECT_EQ(files(".dst.weightloom-work"), (Folder{{"journal", "journal"}, {"out/new", "new"}}));
}

TEST_F(WorkFolderTest, TwoRunsAtOnceDoNotWriteOneDestination) {
  WorkFolder first = prepared(quick_calls(), "dst");
  WorkFolder second(quick_calls(), at("dst"), false);
  EXPECT_EQ(refusal_of([&] { second.prepare(true); }).value().code(), ErrorCode::exists);
  EXPECT_EQ(refusal_of([&] { second.claim(); }).value().code(), ErrorCode::exists);
  first.publish();
  first.remove();
  EXPECT_FALSE(second.claim());
  second.prepare(true);
  EXPECT_EQ(files("dst"), (Folder{{"new", "new"}}));
}

TEST_F(WorkFolderTest, AnEarlierRunsWorkIsClaimedOnceThatRunIsOver) {
  prepared(quick_calls(), "dst");
  WorkFolder again(quick_calls(), at("dst"), false);
  EXPECT_TRUE(again.claim());
  EXPECT_EQ(files(".dst.weightloom-work"), (Folder{{"journal", "journal"}, {"out/new", "new"}}));
}

TEST_F(WorkFolderTest, AFilesystemWithoutLocksIsWrittenWithoutOne) {
  for (const int error : {EBADF, ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL}) {
    FaultSyscalls calls(quick_calls());
    calls.fail_every(CallKind::lock, error);
    WorkFolder work = prepared(calls, "dst");
    work.remove();
  }
}

TEST_F(WorkFolderTest, ALinkInPlaceOfTheWorkFolderIsNotFollowed) {
  write_folder(at("elsewhere"), {{"out/mine", "mine"}, {"journal", "mine"}});
  ASSERT_EQ(symlink("elsewhere", at(".dst.weightloom-work").c_str()), 0);
  WorkFolder work(quick_calls(), at("dst"), false);
  EXPECT_EQ(refusal_of([&] { work.prepare(true); }).value().code(), ErrorCode::exists);
  EXPECT_EQ(files("elsewhere"), (Folder{{"out/mine", "mine"}, {"journal", "mine"}}));
}

/// A destination on another device than its parent.
class Mounts : public ForwardingSyscalls {
 public:
  explicit Mounts(std::string point) : point_(std::move(point)) {}
  StatResult lstat(const std::string& path) const override {
    StatResult result = ForwardingSyscalls::lstat(path);
    if (path == point_) ++result.status.device;
    return result;
  }

 private:
  std::string point_;
};

TEST_F(WorkFolderTest, AMountPointIsRefused) {
  make_folder(system_calls(), at("dst"));
  const Mounts calls(at("dst"));
  WorkFolder work(calls, at("dst"), false);
  EXPECT_EQ(refusal_of([&] { work.prepare(true); }).value().code(), ErrorCode::unsupported);
}

TEST_F(WorkFolderTest, PruningKeepsTheFilesNamedAndTheFoldersThatHoldThem) {
  write_folder(at("t"), {{"a", "1"}, {"b", "2"}, {"s/a", "3"}, {"s/b", "4"}, {"e/x/y", "5"}});
  prune_tree(quick_calls(), at("t"), {"a", "s/b", "absent"});
  EXPECT_EQ(files("t"), (Folder{{"a", "1"}, {"s/b", "4"}}));
  EXPECT_THAT(list_folder(system_calls(), at("t")), ElementsAre("a", "s"));
}

TEST_F(WorkFolderTest, LinkingSkipsRelativeNames) {
  write_folder(at("t"), {{"a", "1"}, {"b", "2"}, {"s/a", "3"}, {"s/b", "4"}});
  make_folder(system_calls(), at("u"));
  link_tree(quick_calls(), at("t"), at("u"), {"a", "s/b"});
  EXPECT_EQ(files("u"), (Folder{{"b", "2"}, {"s/a", "3"}}));
}

/// A skipped name is a file of the output: a folder of that name is not to vanish for it.
TEST_F(WorkFolderTest, LinkingRefusesToSkipAFolder) {
  write_folder(at("from"), {{"notes/a", "a"}});
  make_folder(system_calls(), at("to"));
  const auto refusal =
      refusal_of([&] { link_tree(system_calls(), at("from"), at("to"), {"notes"}); });
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code(), ErrorCode::exists);
}

TEST_F(WorkFolderTest, AFolderOfSomebodyElseIsNotClearedAway) {
  write_folder(at(".new.weightloom-work"), {{"mine", "precious"}});
  WorkFolder work(system_calls(), at("new"), false);
  const auto refusal = refusal_of([&] { work.prepare(false); });
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code(), ErrorCode::exists);
  EXPECT_EQ(files(".new.weightloom-work").at("mine"), "precious");
}

}  // namespace
}  // namespace weightloom::testing
