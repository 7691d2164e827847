#include "weightloom/execute/load.h"

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::RandomProgram;
using testing::test_seed;

constexpr int64_t kMiB = int64_t{1} << 20;

class LoadTest : public ::testing::Test {
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

LoadOptions options(int threads, int64_t budget_bytes) {
  LoadOptions result;
  result.run.threads = threads;
  result.run.memory_budget_bytes = budget_bytes;
  return result;
}

std::vector<Bytes> bytes_of(const std::vector<std::span<std::byte>>& tensors) {
  std::vector<Bytes> result;
  for (const auto& tensor : tensors) result.emplace_back(tensor.begin(), tensor.end());
  return result;
}

/// Buffers for a program's targets, with a guard byte after each.
class Buffers {
 public:
  explicit Buffers(const CopyProgram& program) {
    for (const ProgramTarget& target : program.targets()) {
      memory_.emplace_back(static_cast<size_t>(target.size_bytes) + 1, std::byte{0xee});
    }
    for (Bytes& bytes : memory_) spans_.push_back(std::span(bytes).first(bytes.size() - 1));
  }
  std::span<const std::span<std::byte>> spans() const { return spans_; }
  std::vector<Bytes> contents() const { return bytes_of(spans_); }
  std::vector<std::byte> guards() const {
    std::vector<std::byte> guards;
    for (const Bytes& bytes : memory_) guards.push_back(bytes.back());
    return guards;
  }

 private:
  std::vector<Bytes> memory_;
  std::vector<std::span<std::byte>> spans_;
};

TEST_F(LoadTest, IntoAnArenaEqualsTheInterpreter) {
  for_each_program(150, 12, [](const RandomProgram& random, const CopyProgram& program) {
    for (int threads : {1, 4}) {
      const LoadedTensors loaded = load(system_calls(), program, options(threads, 64 * kMiB));
      EXPECT_EQ(bytes_of(loaded.tensors), random.expected());
      EXPECT_EQ(loaded.statistics.bytes_written, program.target_bytes());
    }
  });
}

TEST_F(LoadTest, OfSeveralTilesEqualsTheInterpreter) {
  for_each_program(4, 110, [](const RandomProgram& random, const CopyProgram& program) {
    const LoadedTensors loaded = load(system_calls(), program, options(2, 2 * kMiB));
    EXPECT_EQ(bytes_of(loaded.tensors), random.expected());
    EXPECT_LE(loaded.statistics.peak_working_bytes, 2 * kMiB);
  });
}

TEST_F(LoadTest, IntoBuffersEqualsTheInterpreterAndWritesNothingElse) {
  for_each_program(100, 12, [](const RandomProgram& random, const CopyProgram& program) {
    for (int threads : {1, 4}) {
      const Buffers buffers(program);
      load_into(system_calls(), program, buffers.spans(), options(threads, 8 * kMiB));
      EXPECT_EQ(buffers.contents(), random.expected());
      EXPECT_THAT(buffers.guards(), Each(std::byte{0xee}));
    }
  });
}

TEST_F(LoadTest, UnderShortReadsAndSignalsEqualsTheInterpreter) {
  for_each_program(40, 9, [](const RandomProgram& random, const CopyProgram& program) {
    FaultSyscalls calls;
    calls.shorten_transfers(3, test_seed());
    EXPECT_EQ(bytes_of(load(calls, program, options(2, 8 * kMiB)).tensors), random.expected());
  });
}

TEST_F(LoadTest, TensorsInTheArenaAreAlignedAndApart) {
  for_each_program(20, 5, [](const RandomProgram&, const CopyProgram& program) {
    const LoadedTensors loaded = load(system_calls(), program, options(1, kMiB));
    const std::byte* end = loaded.arena.bytes().data();
    for (const auto& tensor : loaded.tensors) {
      if (tensor.empty()) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0U);
      EXPECT_GE(tensor.data(), end);
      end = tensor.data() + tensor.size();
    }
    EXPECT_LE(end - loaded.arena.bytes().data(), std::ssize(loaded.arena.bytes()));
  });
}

TEST_F(LoadTest, ATargetIsCalledCompleteOnceWithAllItsBytesInPlace) {
  for_each_program(60, 12, [](const RandomProgram& random, const CopyProgram& program) {
    const auto expected = random.expected();
    const Buffers buffers(program);
    LoadOptions load_options = options(4, 8 * kMiB);
    std::vector<int> times(expected.size());
    std::mutex alone;
    load_options.complete = [&](size_t i) {
      ASSERT_TRUE(alone.try_lock()) << "two callbacks at once";
      ++times.at(i);
      const auto bytes = buffers.spans()[i];
      EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), expected[i]);
      alone.unlock();
    };
    load_into(system_calls(), program, buffers.spans(), load_options);
    EXPECT_THAT(times, Each(1));
  });
}

TEST_F(LoadTest, ATargetOfSeveralTilesIsCalledCompleteOnce) {
  const int64_t size = 3 * kMiB;
  RandomProgram random;
  random.files = {Bytes(static_cast<size_t>(size), std::byte{9})};
  random.program =
      CopyProgram({{"0", folder_ / "0", {}}}, {{"a", DType::U8, {size}, 0, 0, size}},
                  {{"e", DType::U8, {0}, 0, {}, true},
                   {"t", DType::U8, {size}, size, {{0, 0, 0, 0, {{size, 1, 1}}}}, true}});
  const CopyProgram program = testing::write_sources(random);
  LoadOptions load_options = options(2, 2 * kMiB);
  std::vector<size_t> complete;
  load_options.complete = [&](size_t i) { complete.push_back(i); };
  load(system_calls(), program, load_options);
  EXPECT_EQ(complete, (std::vector<size_t>{0, 1}));
}

TEST_F(LoadTest, AReadErrorNamesTheFile) {
  for_each_program(5, 9, [this](const RandomProgram&, const CopyProgram& program) {
    FaultSyscalls calls;
    calls.fail_every(CallKind::pread, EIO);
    calls.fail_every(CallKind::preadv, EIO);
    const auto error = refusal_of([&] { load(calls, program, options(2, 8 * kMiB)); });
    if (calls.calls(CallKind::pread) + calls.calls(CallKind::preadv) == 0) return;  // pads alone
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io);
    EXPECT_THAT(error->what(), HasSubstr(folder_.path()));
    EXPECT_EQ(calls.calls(CallKind::open), calls.calls(CallKind::close));
  });
}

TEST_F(LoadTest, AStopRequestEndsTheLoadAsCancelled) {
  const RandomProgram random = testing::random_program(3, 9, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  std::stop_source stop;
  stop.request_stop();
  LoadOptions load_options = options(4, 8 * kMiB);
  load_options.run.stop = stop.get_token();
  const auto error = refusal_of([&] { load(system_calls(), program, load_options); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::cancelled);
}

TEST_F(LoadTest, BuffersOfAnotherSizeOrNumberAreRefusedWithNumbers) {
  const CopyProgram program({}, {},
                            {{"t", DType::U8, {4}, 4, {{kPad, 0, 0, 0, {{4, 1, 0}}}}, true}});
  Bytes memory(5);
  const std::span<std::byte> five(memory);
  const auto size =
      refusal_of([&] { load_into(system_calls(), program, {&five, 1}, options(1, kMiB)); });
  ASSERT_TRUE(size);
  EXPECT_EQ(size->code(), ErrorCode::usage);
  EXPECT_STREQ(size->what(), "the buffer for 't' has 5 bytes, needed 4");
  const auto number = refusal_of([&] { load_into(system_calls(), program, {}, options(1, kMiB)); });
  ASSERT_TRUE(number);
  EXPECT_STREQ(number->what(), "0 buffers for 1 targets");
}

TEST_F(LoadTest, AProgramWithoutTargetsLoadsNothing) {
  const LoadedTensors loaded = load(system_calls(), CopyProgram(), options(4, 8 * kMiB));
  EXPECT_TRUE(loaded.tensors.empty());
  EXPECT_EQ(loaded.statistics.bytes_read, 0);
}

}  // namespace
}  // namespace weightloom
