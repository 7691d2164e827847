#include "weightloom/base/memory_files.h"

#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/file.h"
#include "weightloom/base/temporary_folder_testing.h"

namespace weightloom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(MemoryFiles, AreReadLikeOthers) {
  MemoryFiles files;
  files.add_text("nowhere/a.txt", "seven b");
  EXPECT_EQ(read_whole_file(files.calls(), "nowhere/a.txt"), "seven b");
  EXPECT_EQ(status_of(files.calls(), "nowhere/a.txt")->size_bytes, 7);
}

TEST(MemoryFiles, OfSeveralPartsAreReadAcrossTheirEnds) {
  const std::string one = "abc";
  const std::string none;
  const std::string two = "defgh";
  MemoryFiles files;
  files.add("f", {bytes_of(none), bytes_of(one), bytes_of(none), bytes_of(two), bytes_of(none)});
  for (size_t begin = 0; begin <= 8; ++begin) {
    for (size_t size = 0; size <= 8 - begin; ++size) {
      std::string text(size, '?');
      File::open_read(files.calls(), "f")
          .read_at(std::as_writable_bytes(std::span(text)), static_cast<int64_t>(begin));
      EXPECT_EQ(text, std::string("abcdefgh").substr(begin, size)) << begin << " " << size;
    }
  }
}

TEST(MemoryFiles, AreReadIntoSeveralBuffers) {
  MemoryFiles files;
  files.add_text("f", "abcdefg");
  std::string first(3, '?');
  std::string second(2, '?');
  const std::array<std::span<std::byte>, 2> buffers{std::as_writable_bytes(std::span(first)),
                                                    std::as_writable_bytes(std::span(second))};
  File::open_read(files.calls(), "f").read_at(std::span<const std::span<std::byte>>(buffers), 1);
  EXPECT_EQ(first + second, "bcdef");
}

TEST(MemoryFiles, EndWhereTheyEnd) {
  MemoryFiles files;
  files.add_text("f", "abc");
  std::string text(4, '?');
  const auto refusal = refusal_of([&] {
    File::open_read(files.calls(), "f").read_at(std::as_writable_bytes(std::span(text)), 0);
  });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::io);
}

TEST(MemoryFiles, StandBesideThoseOnDisk) {
  const TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "real", "on disk");
  MemoryFiles files;
  files.add_text(folder / "held", "in memory");
  EXPECT_THAT(list_folder(files.calls(), folder.path()), ElementsAre("held", "real"));
  EXPECT_EQ(read_whole_file(files.calls(), folder / "real"), "on disk");
  EXPECT_EQ(read_whole_file(files.calls(), folder / "held"), "in memory");
  EXPECT_FALSE(status_of(system_calls(), folder / "held"));
}

TEST(MemoryFiles, HideThoseOnDisk) {
  const TemporaryFolder folder;
  write_whole_file(system_calls(), folder / "f", "on disk");
  MemoryFiles files;
  files.add_text(folder / "f", "in memory");
  EXPECT_EQ(read_whole_file(files.calls(), folder / "f"), "in memory");
  EXPECT_THAT(list_folder(files.calls(), folder.path()), ElementsAre("f"));
}

TEST(MemoryFiles, HaveFoldersAboveThem) {
  MemoryFiles files;
  files.add_text("(held)/deep/f", "");
  files.add_text("(held)/g", "");
  EXPECT_EQ(status_of(files.calls(), "(held)")->kind, FileKind::folder);
  EXPECT_EQ(status_of(files.calls(), "(held)/deep")->kind, FileKind::folder);
  EXPECT_THAT(list_folder(files.calls(), "(held)"), ElementsAre("deep", "g"));
  EXPECT_FALSE(status_of(files.calls(), "(held)/absent"));
}

TEST(MemoryFiles, StandBesideOthersInMemory) {
  MemoryFiles inner;
  inner.add_text("(a)/f", "inner");
  MemoryFiles outer(inner.calls());
  outer.add_text("(a)/g", "outer");
  EXPECT_EQ(read_whole_file(outer.calls(), "(a)/f"), "inner");
  EXPECT_EQ(read_whole_file(outer.calls(), "(a)/g"), "outer");
  EXPECT_THAT(list_folder(outer.calls(), "(a)"), ElementsAre("f", "g"));
}

TEST(MemoryFiles, AreNotWrittenLinkedRenamedOrRemoved) {
  const TemporaryFolder folder;
  MemoryFiles files;
  files.add_text("(held)/f", "abc");
  const Syscalls& calls = files.calls();
  EXPECT_EQ(calls.open("(held)/f", O_RDWR, 0), -EROFS);
  EXPECT_EQ(calls.unlink("(held)/f"), -EROFS);
  EXPECT_EQ(calls.link("(held)/f", folder / "g"), -EXDEV);
  EXPECT_EQ(calls.link_followed("(held)/f", folder / "g"), -EXDEV);
  EXPECT_EQ(calls.rename("(held)/f", folder / "g"), -EXDEV);
  EXPECT_EQ(calls.rename_new(folder / "g", "(held)/f"), -EXDEV);
  EXPECT_EQ(calls.exchange(folder / "g", "(held)/f"), -EXDEV);
  EXPECT_EQ(calls.access("(held)/f", W_OK), -EROFS);
  EXPECT_EQ(calls.access("(held)/f", R_OK), 0);
  const int fd = calls.open("(held)/f", O_RDONLY, 0);
  EXPECT_EQ(calls.pwrite(fd, {}, 0), -EBADF);
  EXPECT_EQ(calls.ftruncate(fd, 0), -EBADF);
  EXPECT_EQ(calls.copy_file_range(fd, 0, fd, 0, 1), -EXDEV);
  EXPECT_EQ(read_whole_file(calls, "(held)/f"), "abc");
}

TEST(MemoryFiles, HolesHaveASizeAndReadAsZeros) {
  const std::string text = "abcd";
  const auto bytes = std::as_bytes(std::span(text));
  MemoryFiles files;
  files.add_with_holes("f", {{{}, 2}, {bytes.first(2)}, {{}, 3}, {bytes.subspan(2)}, {{}, 1}});
  EXPECT_EQ(files.calls().stat("f").status.size_bytes, 10);
  EXPECT_EQ(read_whole_file(files.calls(), "f"), std::string("\0\0ab\0\0\0cd\0", 10));
  const int fd = files.calls().open("f", O_RDONLY, 0);
  std::string some(4, '-');
  EXPECT_EQ(files.calls().pread(fd, std::as_writable_bytes(std::span(some)), 6), 4);
  EXPECT_EQ(some, std::string("\0cd\0", 4));
}

TEST(MemoryFiles, OfOnePathAreRefused) {
  MemoryFiles files;
  files.add_text("f", "");
  const auto refusal = refusal_of([&] { files.add_text("f", ""); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
  EXPECT_THAT(refusal->what(), HasSubstr("f: two files in memory"));
}

}  // namespace
}  // namespace weightloom
