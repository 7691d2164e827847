#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/file.h"
#include "weightloom/base/temporary_folder_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class PowerCut : public testing::Test {
 protected:
  std::string text_of(std::string_view name) const {
    return read_whole_file(system_calls(), folder_ / name);
  }
  std::vector<std::string> names() const { return list_folder(system_calls(), folder_.path()); }
  void write_durably(std::string_view name, std::string_view text) const {
    write_whole_file(calls_, folder_ / name, text);
    sync_folder(calls_, folder_.path());
  }

  TemporaryFolder folder_;
  FaultSyscalls calls_;
};

TEST_F(PowerCut, KeepsWhatWasSynced) {
  write_durably("f", "0123");
  calls_.lose_unsynced_data();
  EXPECT_EQ(text_of("f"), "0123");
}

TEST_F(PowerCut, RemovesFilesOfAnUnsyncedFolder) {
  write_whole_file(calls_, folder_ / "f", "0123");
  make_folder(calls_, folder_ / "d");
  calls_.lose_unsynced_data();
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(PowerCut, ZeroesUnsyncedBytesAndDropsUnsyncedGrowth) {
  write_durably("f", "0123");
  File file = File::open_write(calls_, folder_ / "f");
  file.write_at(bytes_of("ab"), 1);
  file.write_at(bytes_of("more"), 4);
  calls_.lose_unsynced_data();
  EXPECT_EQ(text_of("f"), (std::string{'0', '\0', '\0', '3'}));
}

TEST_F(PowerCut, EmptiesAFileThatWasRenamedBeforeItsDataWasSynced) {
  write_durably("f", "old");
  File file = File::create(calls_, folder_ / "new");
  file.write_at(bytes_of("new"), 0);
  rename_path(calls_, folder_ / "new", folder_ / "f");
  sync_folder(calls_, folder_.path());
  calls_.lose_unsynced_data();
  EXPECT_THAT(names(), ElementsAre("f"));
  EXPECT_EQ(text_of("f"), "");
}

TEST_F(PowerCut, UndoesRenamesOverAndRemovals) {
  write_durably("a", "A");
  write_durably("b", "B");
  write_durably("c", "C");
  rename_path(calls_, folder_ / "a", folder_ / "b");
  remove_all(calls_, folder_ / "c");
  calls_.lose_unsynced_data();
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(text_of("a") + text_of("b") + text_of("c"), "ABC");
}

TEST_F(PowerCut, UndoesAnExchangeOfFolders) {
  make_folder(calls_, folder_ / "work");
  make_folder(calls_, folder_ / "live");
  write_whole_file(calls_, folder_ / "work/f", "new");
  write_whole_file(calls_, folder_ / "live/f", "old");
  for (auto name : {"work", "live", ""}) sync_folder(calls_, folder_ / name);
  ASSERT_EQ(calls_.exchange(folder_ / "work", folder_ / "live"), 0);
  calls_.lose_unsynced_data();
  EXPECT_EQ(text_of("live/f"), "old");
  ASSERT_EQ(calls_.exchange(folder_ / "work", folder_ / "live"), 0);
  sync_folder(calls_, folder_.path());
  calls_.lose_unsynced_data();
  EXPECT_EQ(text_of("live/f"), "new");
}

TEST_F(PowerCut, FindsEntriesOfAFolderThatMoved) {
  make_folder(calls_, folder_ / "work");
  sync_folder(calls_, folder_.path());
  write_whole_file(calls_, folder_ / "work/f", "1");
  rename_path(calls_, folder_ / "work", folder_ / "done");
  sync_folder(calls_, folder_.path());
  calls_.lose_unsynced_data();
  EXPECT_THAT(list_folder(system_calls(), folder_ / "done"), IsEmpty());
}

TEST_F(PowerCut, PutsBackAFolderRemovedWithItsFiles) {
  make_folder(calls_, folder_ / "d");
  write_whole_file(calls_, folder_ / "d/f", "1");
  sync_folder(calls_, folder_ / "d");
  sync_folder(calls_, folder_.path());
  remove_all(calls_, folder_ / "d");
  calls_.lose_unsynced_data();
  EXPECT_EQ(text_of("d/f"), "1");
}

TEST_F(PowerCut, StopsEveryCallFromTheCrashOn) {
  calls_.crash_at(1);
  int fd = calls_.open(folder_ / "f", 0101, 0666);  // O_WRONLY | O_CREAT
  ASSERT_GE(fd, 0);
  EXPECT_EQ(calls_.pwrite(fd, bytes_of("1"), 0), -EIO);
  EXPECT_EQ(calls_.fsync(fd), -EIO);
  EXPECT_EQ(calls_.close(fd), -EIO);
  EXPECT_TRUE(calls_.crashed());
  calls_.lose_unsynced_data();
  EXPECT_FALSE(calls_.crashed());
  EXPECT_THAT(names(), IsEmpty());
}

TEST(FaultSyscalls, FailsTheChosenCallOnly) {
  TemporaryFolder folder;
  FaultSyscalls calls;
  calls.fail_call(1, EACCES);
  calls.fail_call(CallKind::mkdir, 0, EROFS);
  EXPECT_EQ(calls.stat(folder.path()).error, 0);
  EXPECT_EQ(calls.stat(folder.path()).error, -EACCES);
  EXPECT_EQ(calls.mkdir(folder / "d"), -EROFS);
  EXPECT_EQ(calls.mkdir(folder / "d"), 0);
  EXPECT_EQ(calls.calls(), 4);
  EXPECT_EQ(calls.calls(CallKind::stat), 2);
}

}  // namespace
}  // namespace weightloom
