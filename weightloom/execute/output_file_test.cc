#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/forwarding_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/output_file_internal.h"
#include "weightloom/layout/layout_testing.h"

namespace weightloom {
namespace {

constexpr size_t kPage = kDirectAlignmentBytes;
constexpr size_t kSize = 10 * kPage + 77;

/// kSize bytes that lie in memory as they lie in the file.
class PagedBytes {
 public:
  PagedBytes() : memory_(kSize + kPage) {
    std::mt19937_64 random(7);
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    bytes_ = std::span(memory_).subspan((kPage - address % kPage) % kPage, kSize);
  }
  std::span<const std::byte> from(size_t begin, size_t end) const {
    return bytes_.subspan(begin, end - begin);
  }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), kSize}; }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

class OutputFileTest : public ::testing::Test {
 protected:
  /// Writes the bytes in pieces cut at `cuts`, the last piece first.
  void write_pieces(const Syscalls& calls, std::vector<size_t> cuts) const {
    OutputFile file(calls, path_, kSize, false);
    cuts.push_back(kSize);
    for (size_t i = cuts.size(); i-- > 1;) {
      file.write(bytes_.from(cuts[i - 1], cuts[i]), static_cast<int64_t>(cuts[i - 1]));
    }
    file.sync();
    file.close();
  }
  std::string written() const { return read_whole_file(system_calls(), path_); }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "f";
  const PagedBytes bytes_;
};

/// Cuts from 0, in order.
std::vector<size_t> random_cuts(std::mt19937_64& random) {
  std::vector<size_t> cuts{0};
  for (size_t count = random() % 6; count > 0; --count) {
    const size_t cut = random() % kSize;
    cuts.push_back(random() % 2 == 0 ? cut : cut / kPage * kPage);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

TEST_F(OutputFileTest, PiecesCutAnywhereMakeTheWhole) {
  const uint64_t seed = testing::test_seed();
  SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; ++i) {
    write_pieces(system_calls(), random_cuts(random));
    ASSERT_EQ(written(), bytes_.text());
  }
}

TEST_F(OutputFileTest, ShortWritesAndSignalsMakeTheWhole) {
  std::mt19937_64 random(testing::test_seed());
  for (uint64_t i = 0; i < 20; ++i) {
    FaultSyscalls calls;
    calls.shorten_transfers(3 * kDirectAlignmentBytes, i);
    write_pieces(calls, random_cuts(random));
    ASSERT_EQ(written(), bytes_.text());
  }
}

TEST_F(OutputFileTest, BytesThatLieElsewhereInTheirPagesAreWrittenToo) {
  std::vector<std::byte> moved(kSize);
  const auto all = bytes_.from(0, kSize);
  std::copy(all.begin(), all.end(), moved.begin());
  OutputFile file(system_calls(), path_, kSize + 3, false);
  file.write(moved, 3);
  EXPECT_EQ(written(), std::string(3, '\0') + bytes_.text());
}

/// A filesystem that knows no direct writing: it refuses to open (`at_open`) or to write.
class Indirect : public ForwardingSyscalls {
 public:
  explicit Indirect(bool at_open) : at_open_(at_open) {}
  int open(const std::string& path, int flags, uint32_t mode) const override {
    const bool direct = (flags & O_DIRECT) != 0;
    if (direct && at_open_) return -EINVAL;
    const int fd = ForwardingSyscalls::open(path, flags & ~O_DIRECT, mode);
    if (direct) direct_fd_ = fd;
    return fd;
  }
  int64_t pwrite(int fd, std::span<const std::byte> buffer, int64_t offset) const override {
    return fd == direct_fd_ ? -EINVAL : ForwardingSyscalls::pwrite(fd, buffer, offset);
  }

 private:
  bool at_open_;
  mutable int direct_fd_ = -1;
};

TEST_F(OutputFileTest, AFilesystemWithoutDirectWritingServes) {
  for (bool at_open : {true, false}) {
    write_pieces(Indirect(at_open), {0, 5000, 3 * kPage});
    EXPECT_EQ(written(), bytes_.text());
  }
}

TEST_F(OutputFileTest, SyncMakesDirectAndOtherWritesDurable) {
  FaultSyscalls calls;
  write_pieces(calls, {0, 100, 2 * kPage, 5 * kPage + 1});
  sync_folder(calls, folder_.path());
  calls.lose_unsynced_data();
  EXPECT_EQ(written(), bytes_.text());
}

TEST_F(OutputFileTest, KeepingLeavesWhatIsThere) {
  write_pieces(system_calls(), {0});
  OutputFile file(system_calls(), path_, kSize, true);
  file.write(bytes_.from(0, 10), static_cast<int64_t>(kSize) - 10);
  std::string expected = bytes_.text();
  expected.replace(kSize - 10, 10, bytes_.text(), 0, 10);
  EXPECT_EQ(written(), expected);
}

TEST_F(OutputFileTest, EveryFailingCallIsAnErrorThatNamesTheFile) {
  const FaultSyscalls counted;
  write_pieces(counted, {0, 100, 2 * kPage});
  for (CallKind kind :
       {CallKind::open, CallKind::fallocate, CallKind::pwrite, CallKind::fsync, CallKind::close}) {
    for (int64_t number = 0; number < counted.calls(kind); ++number) {
      FaultSyscalls calls;
      calls.fail_call(kind, number, EIO);
      const auto error = refusal_of([&] { write_pieces(calls, {0, 100, 2 * kPage}); });
      ASSERT_TRUE(error) << static_cast<int>(kind) << " " << number;
      EXPECT_EQ(error->code(), ErrorCode::io);
      EXPECT_NE(std::string(error->what()).find(path_), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weightloom
