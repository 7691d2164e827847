#include "weightloom/base/file.h"

#include <cerrno>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"

namespace weightloom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string counting_text(size_t size) {
  std::string text(size, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

TEST(File, ReadsAndWritesWholeUnderShortAndInterruptedTransfers) {
  TemporaryFolder folder;
  const std::string text = counting_text(1009);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    FaultSyscalls calls;
    calls.shorten_transfers(7, seed);
    write_whole_file(calls, folder / "f", text);
    EXPECT_EQ(read_whole_file(calls, folder / "f"), text) << "seed " << seed;
    EXPECT_GT(calls.calls(CallKind::pwrite), 1009 / 7);
  }
}

TEST(File, LetsTheKernelCopyRanges) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "from", "0123456789");
  write_whole_file(system_calls(), folder / "to", "abcdefghij");
  const File from = File::open_read(system_calls(), folder / "from");
  const File to = File::open_write(system_calls(), folder / "to");
  EXPECT_EQ(to.copy_from(from, 2, 5, 3), 3);
  EXPECT_EQ(read_whole_file(system_calls(), folder / "to"), "abcde234ij");
  const auto error = refusal_of([&] { to.copy_from(from, 10, 0, 4); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("the file ends at byte 10, but bytes [10, 14) are needed"));
}

TEST(File, TellsACopyThatTheKernelRefusesFromOneThatFails) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "from", "0123456789");
  for (int refusal : {EXDEV, EOPNOTSUPP, EINVAL, ENOSYS}) {
    FaultSyscalls calls;
    calls.fail_every(CallKind::copy_file_range, refusal);
    const File from = File::open_read(calls, folder / "from");
    EXPECT_EQ(File::create(calls, folder / "to").copy_from(from, 0, 0, 4), std::nullopt);
  }
  FaultSyscalls calls;
  calls.fail_every(CallKind::copy_file_range, ENOSPC);
  const File from = File::open_read(calls, folder / "from");
  const File to = File::create(calls, folder / "to");
  EXPECT_EQ(refusal_of([&] { to.copy_from(from, 0, 0, 4); }).value().code(), ErrorCode::no_space);
}

TEST(Syscalls, LinkFollowedLinksTheFileBehindASymbolicLink) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "blob", "data");
  ASSERT_EQ(::symlink("blob", (folder / "name").c_str()), 0);
  EXPECT_EQ(system_calls().link_followed(folder / "name", folder / "linked"), 0);
  const StatResult linked = system_calls().lstat(folder / "linked");
  EXPECT_EQ(linked.status.kind, FileKind::file);
  EXPECT_EQ(linked.status.inode, system_calls().lstat(folder / "blob").status.inode);
  EXPECT_EQ(system_calls().link_followed(folder / "none", folder / "x"), -ENOENT);
}

TEST(File, ScattersConsecutiveBytesIntoBuffersOfAnySizes) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "f", "0123456789");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    FaultSyscalls calls;
    calls.shorten_transfers(3, seed);
    std::string a(1, '?');
    std::string empty;
    std::string b(5, '?');
    std::string c(2, '?');
    std::vector<std::span<std::byte>> buffers;
    for (auto* buffer : {&empty, &a, &empty, &b, &c, &empty}) {
      buffers.push_back(std::as_writable_bytes(std::span(*buffer)));
    }
    File::open_read(calls, folder / "f").read_at(buffers, 1);
    EXPECT_EQ(a + "|" + b + "|" + c, "1|23456|78") << "seed " << seed;
  }
}

TEST(File, ScattersIntoMoreBuffersThanOneCallTakes) {
  TemporaryFolder folder;
  const std::string text = counting_text(3001);
  write_whole_file(system_calls(), folder / "f", text);
  std::string result(text.size(), '?');
  std::vector<std::span<std::byte>> buffers;
  for (auto& c : result) buffers.push_back(std::as_writable_bytes(std::span(&c, 1)));
  File::open_read(system_calls(), folder / "f").read_at(buffers, 0);
  EXPECT_EQ(result, text);
}

TEST(File, SaysWhereAFileEndsThatIsTooShort) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "f", "0123456789");
  File file = File::open_read(system_calls(), folder / "f");
  std::string buffer(8, '\0');
  auto bytes = std::as_writable_bytes(std::span(buffer));
  auto error = refusal_of([&] { file.read_at(bytes, 5); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_EQ(error->what(),
            (folder / "f") + ": the file ends at byte 10, but bytes [5, 13) are needed");
  std::vector<std::span<std::byte>> buffers = {bytes.first(3), bytes.subspan(3)};
  auto scattered = refusal_of([&] { file.read_at(buffers, 5); });
  ASSERT_TRUE(scattered);
  EXPECT_STREQ(scattered->what(), error->what());
}

TEST(File, NamesPathAndNumbersWhenTheDiskIsFull) {
  TemporaryFolder folder;
  FaultSyscalls calls;
  calls.fail_call(CallKind::pwrite, 0, ENOSPC);
  File file = File::create(calls, folder / "f");
  auto error = refusal_of([&] { file.write_at(bytes_of("12345"), 16); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::no_space);
  EXPECT_EQ(error->what(),
            (folder / "f") + ": cannot write 5 bytes at offset 16: No space left on device");
  EXPECT_THAT(error->next_step(), HasSubstr("free space"));
}

TEST(File, PassesOnFailuresOfReadsSyncsAndClose) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "f", "0123456789");
  FaultSyscalls calls;
  calls.fail_call(CallKind::pread, 0, EIO);
  calls.fail_call(CallKind::fsync, 0, EIO);
  calls.fail_call(CallKind::fdatasync, 0, ENOSPC);
  calls.fail_call(CallKind::close, 0, EIO);
  File file = File::open_write(calls, folder / "f");
  std::byte byte{};
  EXPECT_EQ(refusal_of([&] { file.read_at(std::span(&byte, 1), 0); })->code(), ErrorCode::io);
  EXPECT_EQ(refusal_of([&] { file.sync(); })->code(), ErrorCode::io);
  EXPECT_EQ(refusal_of([&] { file.sync_data(); })->code(), ErrorCode::no_space);
  EXPECT_EQ(refusal_of([&] { file.close(); })->code(), ErrorCode::io);
}

TEST(File, ReservesSpaceAndFallsBackToSettingTheSize) {
  TemporaryFolder folder;
  FaultSyscalls calls;
  File file = File::create(calls, folder / "f");
  file.allocate(0);
  file.allocate(10);
  EXPECT_EQ(file.status().size_bytes, 10);
  calls.fail_every(CallKind::fallocate, EOPNOTSUPP);
  file.allocate(20);
  EXPECT_EQ(file.status().size_bytes, 20);
  file.allocate(5);
  EXPECT_EQ(file.status().size_bytes, 20);
  calls.fail_every(CallKind::fallocate, EFBIG);
  EXPECT_EQ(refusal_of([&] { file.allocate(30); })->code(), ErrorCode::no_space);
}

TEST(File, OpenForWritingKeepsWhatIsThere) {
  TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "f", "0123");
  File::open_write(system_calls(), folder / "f").write_at(bytes_of("x"), 1);
  EXPECT_EQ(read_whole_file(system_calls(), folder / "f"), "0x23");
}

TEST(File, AbsentAndUnreadablePathsAreTold) {
  TemporaryFolder folder;
  auto absent = refusal_of([&] { File::open_read(system_calls(), folder / "no"); });
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent->code(), ErrorCode::not_found);
  EXPECT_THAT(absent->what(), HasSubstr((folder / "no") + ": cannot open"));
  FaultSyscalls calls;
  calls.fail_call(CallKind::open, 0, EACCES);
  auto denied = refusal_of([&] { File::open_read(calls, folder / "f"); });
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->code(), ErrorCode::permission);
}

TEST(Folder, ListsNamesSorted) {
  TemporaryFolder folder;
  for (auto name : {"b", "a", ".hidden", "B"}) write_whole_file(system_calls(), folder / name, "");
  EXPECT_THAT(list_folder(system_calls(), folder.path()), ElementsAre(".hidden", "B", "a", "b"));
}

TEST(Folder, IsMadeOnceAndNotOverAFile) {
  TemporaryFolder folder;
  make_folder(system_calls(), folder / "d");
  make_folder(system_calls(), folder / "d");
  write_whole_file(system_calls(), folder / "f", "");
  auto error = refusal_of([&] { make_folder(system_calls(), folder / "f"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::exists);
}

TEST(Folder, IsRemovedWithAllItHoldsButNotThroughLinks) {
  TemporaryFolder folder;
  make_folder(system_calls(), folder / "kept");
  write_whole_file(system_calls(), folder / "kept/f", "1");
  make_folder(system_calls(), folder / "gone");
  make_folder(system_calls(), folder / "gone/deep");
  write_whole_file(system_calls(), folder / "gone/deep/f", "1");
  ASSERT_EQ(::symlink((folder / "kept").c_str(), (folder / "gone/link").c_str()), 0);
  remove_all(system_calls(), folder / "gone");
  remove_all(system_calls(), folder / "gone");
  EXPECT_EQ(status_of(system_calls(), folder / "gone"), std::nullopt);
  EXPECT_EQ(read_whole_file(system_calls(), folder / "kept/f"), "1");
}

TEST(File, APipeIsRefusedBeforeItIsOpened) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "config.json").c_str(), 0600), 0);
  const auto error = refusal_of([&] { read_whole_file(system_calls(), folder / "config.json"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::format);
  EXPECT_THAT(error->what(), testing::HasSubstr("config.json: not a regular file"));
}

TEST(Path, PartsJoinAndSplit) {
  EXPECT_EQ(join_path("a/b", "c"), "a/b/c");
  EXPECT_EQ(join_path("a/", "c"), "a/c");
  EXPECT_EQ(join_path("", "c"), "c");
  EXPECT_EQ(join_path("/", "c"), "/c");
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("c"), ".");
  EXPECT_EQ(parent_path("/c"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(base_name("a/b/c"), "c");
  EXPECT_EQ(base_name("a/b/"), "b");
  EXPECT_EQ(base_name("c"), "c");
}

}  // namespace
}  // namespace weightloom
