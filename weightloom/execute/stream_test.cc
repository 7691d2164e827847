#include "weightloom/execute/stream.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/forwarding_syscalls.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom {
namespace {

using testing::RandomProgram;
using testing::test_seed;

constexpr int64_t kMiB = int64_t{1} << 20;

class StreamTest : public ::testing::Test {
 protected:
  template <typename Check>
  void for_each_program(int count, int64_t scale, Check check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
      const RandomProgram random = testing::random_program(seed, scale, folder_.path());
      check(random, testing::write_sources(random));
    }
  }

  TemporaryFolder folder_;
};

RunOptions options(int threads, int64_t budget_bytes) {
  RunOptions result;
  result.threads = threads;
  result.memory_budget_bytes = budget_bytes;
  return result;
}

/// All that a stream gives, each target once.
std::map<size_t, Bytes> taken(TensorStream& stream) {
  std::map<size_t, Bytes> all;
  while (auto made = stream.next()) {
    const auto bytes = made->memory.bytes();
    EXPECT_TRUE(all.emplace(made->target, Bytes(bytes.begin(), bytes.end())).second);
  }
  return all;
}

std::map<size_t, Bytes> by_place(const std::vector<Bytes>& tensors) {
  std::map<size_t, Bytes> all;
  for (size_t i = 0; i < tensors.size(); ++i) all.emplace(i, tensors[i]);
  return all;
}

TEST_F(StreamTest, EqualsTheInterpreterWhateverTheThreads) {
  for_each_program(100, 12, [](const RandomProgram& random, const CopyProgram& program) {
    for (int threads : {1, 2, 4}) {
      TensorStream stream(system_calls(), program, options(threads, 64 * kMiB));
      EXPECT_EQ(taken(stream), by_place(random.expected()));
      EXPECT_FALSE(stream.next());
    }
  });
}

TEST_F(StreamTest, OfTensorsLargerThanTheBudgetEqualsTheInterpreter) {
  for_each_program(4, 110, [](const RandomProgram& random, const CopyProgram& program) {
    TensorStream stream(system_calls(), program, options(2, 4 * kMiB));
    EXPECT_EQ(taken(stream), by_place(random.expected()));
  });
}

TEST_F(StreamTest, ThatIsAbandonedAtAnyPointEnds) {
  for_each_program(20, 12, [](const RandomProgram&, const CopyProgram& program) {
    for (size_t count = 0; count <= program.targets().size(); ++count) {
      TensorStream stream(system_calls(), program, options(3, 6 * kMiB));
      for (size_t i = 0; i < count; ++i) EXPECT_TRUE(stream.next());
    }
  });
}

TEST_F(StreamTest, ThatIsStoppedSaysSoAndGivesNothingMore) {
  const RandomProgram random = testing::random_program(test_seed(), 12, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  std::stop_source stop;
  stop.request_stop();
  RunOptions run = options(2, 8 * kMiB);
  run.stop = stop.get_token();
  TensorStream stream(system_calls(), program, run);
  const auto refusal = refusal_of([&] {
    while (stream.next()) continue;
  });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::cancelled);
}

TEST_F(StreamTest, ThatFailsToReadSaysWhyAtAnyCall) {
  for_each_program(5, 12, [](const RandomProgram& random, const CopyProgram& program) {
    for (int64_t failing = 0; failing < 12; ++failing) {
      FaultSyscalls calls(system_calls());
      calls.fail_call(failing, EIO);
      TensorStream stream(calls, program, options(2, 8 * kMiB));
      std::map<size_t, Bytes> all;
      const auto refusal = refusal_of([&] { all = taken(stream); });
      if (refusal) {
        EXPECT_EQ(refusal->code(), ErrorCode::io);
      } else {
        EXPECT_EQ(all, by_place(random.expected()));
      }
    }
  });
}

TEST_F(StreamTest, RefusesABudgetTooSmallForItsThreads) {
  const RandomProgram random = testing::random_program(test_seed(), 12, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  const auto refusal =
      refusal_of([&] { TensorStream stream(system_calls(), program, options(4, 4 * kMiB)); });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), ErrorCode::usage);
}

/// A program that copies `count` tensors of 1 MiB.
CopyProgram plain_copies(const TemporaryFolder& folder, int count) {
  const std::string path = folder / "source";
  write_whole_file(system_calls(), path, std::string(static_cast<size_t>(count * kMiB), 'x'));
  std::vector<ProgramSource> sources;
  std::vector<ProgramTarget> targets;
  for (int i = 0; i < count; ++i) {
    const std::string name = "t" + std::to_string(i);
    sources.push_back({name, DType::U8, {kMiB}, 0, i * kMiB, kMiB});
    Region region;
    region.source = i;
    region.axes.push_back({kMiB, 1, 1});
    targets.push_back({name, DType::U8, {kMiB}, kMiB, {region}});
  }
  const FileStatus status = *status_of(system_calls(), path);
  return {{{"source", path, status}}, std::move(sources), std::move(targets)};
}

/// Counts the bytes that were read.
class CountingSyscalls final : public ForwardingSyscalls {
 public:
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    const int64_t count = ForwardingSyscalls::preadv(fd, buffers, offset);
    read_ += count;
    return count;
  }
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    const int64_t count = ForwardingSyscalls::pread(fd, buffer, offset);
    read_ += count;
    return count;
  }
  int64_t read_bytes() const noexcept { return read_; }

 private:
  mutable std::atomic<int64_t> read_ = 0;
};

TEST_F(StreamTest, ReadsNoFurtherThanItsHalfOfTheBudgetAheadOfTheCaller) {
  const CopyProgram program = plain_copies(folder_, 40);
  const CountingSyscalls calls;
  TensorStream stream(calls, program, options(2, 8 * kMiB));
  for (int64_t count = 1; count <= 40; ++count) {
    ASSERT_TRUE(stream.next());
    EXPECT_LE(calls.read_bytes(), (count + 4) * kMiB);
  }
  EXPECT_FALSE(stream.next());
}

TEST(TensorMemory, IsAlignedWhateverItsSize) {
  for (const int64_t size :
       {int64_t{0}, int64_t{1}, int64_t{63}, 2 * kMiB - 1, 2 * kMiB, 3 * kMiB}) {
    const TensorMemory memory(size);
    EXPECT_EQ(std::ssize(memory.bytes()), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.bytes().data()) % 64, 0);
  }
  EXPECT_TRUE(TensorMemory().bytes().empty());
}

}  // namespace
}  // namespace weightloom
