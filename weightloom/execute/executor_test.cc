#include "weightloom/execute/executor.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/forwarding_syscalls.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/executor_testing.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/plan/cost.h"
#include "weightloom/plan/random_program_testing.h"
#include "weightloom/safetensors/safetensors_testing.h"

namespace weightloom {
namespace {

using ::testing::HasSubstr;
using testing::RandomProgram;
using testing::test_seed;

constexpr ScheduleLimits kDefault{};
constexpr ScheduleLimits kTiny{.tile_bytes = 7, .worker_bytes = 32};
constexpr ScheduleLimits kSmall{.tile_bytes = 64, .worker_bytes = 512};

class ExecutorTest : public ::testing::Test {
 protected:
  /// Runs `check(random, program)` on programs whose files are written.
  template <typename Check>
  void for_each_program(int count, int64_t scale, Check check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
      const RandomProgram random = testing::random_program(seed, scale, folder_.path());
      check(random, testing::write_sources(random));
    }
  }

  /// As for_each_program, on programs that decode and encode.
  template <typename Check>
  void for_each_node_program(int count, int64_t scale, Check check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
      const RandomProgram random = testing::random_program_with_nodes(seed, scale, folder_.path());
      check(random, testing::write_sources(random));
    }
  }

  TemporaryFolder folder_;
};

/// Counts the bytes that reads give.
class CountingReads : public ForwardingSyscalls {
 public:
  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    return count(ForwardingSyscalls::pread(fd, buffer, offset));
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    return count(ForwardingSyscalls::preadv(fd, buffers, offset));
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t count(int64_t result) const {
    if (result > 0) bytes_ += result;
    return result;
  }
  mutable std::atomic<int64_t> bytes_{0};
};

RunOptions threads(int count) {
  RunOptions options;
  options.threads = count;
  return options;
}

TEST_F(ExecutorTest, EqualsTheInterpreterOnRandomPrograms) {
  for_each_program(300, 12, [](const RandomProgram& random, const CopyProgram& program) {
    const auto expected = random.expected();
    for (const ScheduleLimits& limits : {kDefault, kSmall, kTiny}) {
      EXPECT_EQ(testing::executed(system_calls(), program, limits, threads(1)), expected);
    }
  });
}

TEST_F(ExecutorTest, EqualsTheInterpreterOnFourThreads) {
  for_each_program(150, 12, [](const RandomProgram& random, const CopyProgram& program) {
    for (const ScheduleLimits& limits : {kDefault, kSmall, kTiny}) {
      EXPECT_EQ(testing::executed(system_calls(), program, limits, threads(4)), random.expected());
    }
  });
}

TEST_F(ExecutorTest, EqualsTheInterpreterOnLargePrograms) {
  for_each_program(15, 90, [](const RandomProgram& random, const CopyProgram& program) {
    const auto expected = random.expected();
    EXPECT_EQ(testing::executed(system_calls(), program, {4096, 20'000}, threads(2)), expected);
    EXPECT_EQ(testing::executed(system_calls(), program, kDefault, threads(1)), expected);
  });
}

// Blocks that are computed need room: their buffers begin on cache lines.
constexpr ScheduleLimits kRoomForBlocks{.tile_bytes = 48, .worker_bytes = 8192};

TEST_F(ExecutorTest, EqualsTheInterpreterOnProgramsThatDecodeAndEncode) {
  for_each_node_program(400, 12, [](const RandomProgram& random, const CopyProgram& program) {
    const auto expected = random.expected();
    for (const ScheduleLimits& limits : {kDefault, kRoomForBlocks}) {
      EXPECT_EQ(testing::executed(system_calls(), program, limits, threads(1)), expected);
    }
    EXPECT_EQ(testing::executed(system_calls(), program, kRoomForBlocks, threads(4)), expected);
  });
}

TEST_F(ExecutorTest, EqualsTheInterpreterOnLargeProgramsThatDecodeAndEncode) {
  for_each_node_program(20, 60, [](const RandomProgram& random, const CopyProgram& program) {
    const auto expected = random.expected();
    EXPECT_EQ(testing::executed(system_calls(), program, {4096, 20'000}, threads(2)), expected);
    EXPECT_EQ(testing::executed(system_calls(), program, kDefault, threads(1)), expected);
  });
}

TEST_F(ExecutorTest, StaysUnderTheLimitsOfItsWorkersWhereItDecodesAndEncodes) {
  for_each_node_program(60, 12, [](const RandomProgram&, const CopyProgram& program) {
    testing::CollectSink sink(program);
    const auto tiles = make_schedule(program, testing::own_spaces(program), kRoomForBlocks);
    const Cost cost = cost_of(program, tiles, kRoomForBlocks, 1);
    const CountingReads calls;
    const RunStatistics done = execute(calls, program, tiles, 0, kRoomForBlocks, sink, threads(1));
    EXPECT_LE(done.peak_working_bytes, kRoomForBlocks.worker_bytes + 4096);
    EXPECT_EQ(done.bytes_read, calls.bytes());
    EXPECT_EQ(cost.bytes_read, calls.bytes());
  });
}

TEST_F(ExecutorTest, RefusesABlockThatIsMoreThanItsMemory) {
  constexpr int64_t kBytes = 64 * 64 * 4;
  const std::string path = join_path(folder_.path(), "0");
  File::create(system_calls(), path).write_at(Bytes(kBytes), 0);
  ProgramNode node{{}, true, {64, 64}, {}};
  node.codec.block_rows = node.codec.block_cols = 64;
  node.inputs.push_back({"values", DType::F32, {64, 64}, kBytes, {{0, 0, 0, 0, {{kBytes, 1, 1}}}}});
  const CopyProgram program(
      {{"0", path, *status_of(system_calls(), path)}},
      {{"a", DType::F32, {64, 64}, 0, 0, kBytes}, {"c", DType::F8_E4M3, {64, 64}, -1, 0, 4096, 0}},
      {{"t", DType::F8_E4M3, {64, 64}, 4096, {{1, 0, 0, 0, {{4096, 1, 1}}}}}}, {node});
  const auto error =
      refusal_of([&] { testing::executed(system_calls(), program, {256, 8192}, threads(1)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::plan);
  EXPECT_THAT(error->what(), HasSubstr("'t': one block of it takes"));
}

TEST_F(ExecutorTest, EqualsTheInterpreterUnderShortReadsAndSignals) {
  for_each_program(100, 9, [](const RandomProgram& random, const CopyProgram& program) {
    FaultSyscalls calls;
    calls.shorten_transfers(5, test_seed());
    EXPECT_EQ(testing::executed(calls, program, kSmall, threads(2)), random.expected());
  });
}

TEST_F(ExecutorTest, StaysUnderTheLimitsOfItsWorkers) {
  for_each_program(60, 12, [](const RandomProgram&, const CopyProgram& program) {
    for (int count : {1, 3}) {
      testing::CollectSink sink(program);
      const auto tiles = make_schedule(program, testing::own_spaces(program), kSmall);
      const RunStatistics done =
          execute(system_calls(), program, tiles, 0, kSmall, sink, threads(count));
      EXPECT_LE(done.peak_working_bytes, count * (kSmall.worker_bytes + 4096));
      EXPECT_EQ(done.bytes_written, program.target_bytes());
    }
  });
}

TEST_F(ExecutorTest, ReadsWhatTheScheduleSays) {
  for_each_program(60, 40, [](const RandomProgram&, const CopyProgram& program) {
    const auto tiles = make_schedule(program, testing::own_spaces(program), kDefault);
    int64_t bytes = 0;
    for (const Tile& tile : tiles) bytes += read_tile(program, tile, kDefault).bytes_read;
    const CountingReads calls;
    testing::CollectSink sink(program);
    const RunStatistics done = execute(calls, program, tiles, 0, kDefault, sink, threads(2));
    EXPECT_EQ(done.bytes_read, bytes);
    EXPECT_EQ(calls.bytes(), bytes);
  });
}

/// A file of `rows` rows, cut between four members, `run_bytes` of each row each.
RandomProgram four_members(const std::string& folder, int64_t rows, int64_t run_bytes) {
  RandomProgram result;
  result.files = {Bytes(static_cast<size_t>(4 * rows * run_bytes))};
  for (size_t i = 0; i < result.files[0].size(); ++i) {
    result.files[0][i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  std::vector<ProgramTarget> targets;
  for (int64_t i = 0; i < 4; ++i) {
    const AxisList axes{{rows, run_bytes, 4 * run_bytes}, {run_bytes, 1, 1}};
    const std::vector<Region> regions{{0, 0, i * run_bytes, 0, axes}};
    targets.push_back({"t" + std::to_string(i),
                       DType::U8,
                       {rows, run_bytes},
                       rows * run_bytes,
                       regions,
                       true,
                       false,
                       0});
  }
  result.program =
      CopyProgram({{"0", join_path(folder, "0"), {}}},
                  {{"a", DType::U8, {rows, 4 * run_bytes}, 0, 0, std::ssize(result.files[0])}},
                  std::move(targets));
  return result;
}

TEST_F(ExecutorTest, EachByteThatAFamilySharesIsReadOnce) {
  for (const int64_t run_bytes : {3, 128, 1024, 3072}) {
    const RandomProgram random = four_members(folder_.path(), 3000, run_bytes);
    const CopyProgram program = testing::write_sources(random);
    const CountingReads calls;
    EXPECT_EQ(testing::executed(calls, program, {1 << 20, 4 << 20}, threads(2)), random.expected());
    EXPECT_EQ(calls.bytes(), 4 * 3000 * run_bytes);
  }
}

TEST_F(ExecutorTest, MakesTheTilesFromTheFirstGivenOn) {
  for_each_program(20, 9, [](const RandomProgram&, const CopyProgram& program) {
    const auto tiles = make_schedule(program, testing::own_spaces(program), kTiny);
    const size_t first = tiles.size() / 2;
    testing::CollectSink sink(program);
    execute(system_calls(), program, tiles, first, kTiny, sink, threads(1));
    std::vector<size_t> expected;
    for (size_t i = first; i < tiles.size(); ++i) expected.push_back(i);
    EXPECT_EQ(sink.delivered(), expected);
  });
}

/// Two sources of 100 and 50 bytes in files "0" and "1", each copied to a target.
RandomProgram two_files(const std::string& folder) {
  RandomProgram result;
  result.files = {Bytes(100, std::byte{1}), Bytes(50, std::byte{2})};
  result.program =
      CopyProgram({{"0", join_path(folder, "0"), {}}, {"1", join_path(folder, "1"), {}}},
                  {{"a", DType::U8, {100}, 0, 0, 100}, {"b", DType::U8, {50}, 1, 0, 50}},
                  {{"ta", DType::U8, {100}, 100, {{0, 0, 0, 0, {{100, 1, 1}}}}, true},
                   {"tb", DType::U8, {50}, 50, {{1, 0, 0, 0, {{50, 1, 1}}}}, true}});
  return result;
}

TEST_F(ExecutorTest, AReadThatFailsNamesTheFile) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  for (CallKind kind : {CallKind::open, CallKind::fstat, CallKind::pread}) {
    FaultSyscalls calls;
    calls.fail_call(kind, 1, EIO);
    const auto error = refusal_of([&] { testing::executed(calls, program, kDefault, threads(1)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io);
    EXPECT_THAT(error->what(), HasSubstr(folder_ / "1"));
  }
}

TEST_F(ExecutorTest, ASourceThatChangedIsRefused) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  write_file(folder_ / "1", "shorter");
  const auto error =
      refusal_of([&] { testing::executed(system_calls(), program, kDefault, threads(1)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::checkpoint);
  EXPECT_THAT(error->what(), HasSubstr("/1: changed since its header was read (50 bytes then, 7"));
}

TEST_F(ExecutorTest, ASourceThatIsGoneIsRefused) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  remove_all(system_calls(), folder_ / "0");
  const auto error =
      refusal_of([&] { testing::executed(system_calls(), program, kDefault, threads(4)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::not_found);
}

TEST_F(ExecutorTest, AFileIsOpenedOnceHoweverManyTilesReadIt) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  const FaultSyscalls calls;
  testing::executed(calls, program, kTiny, threads(3));
  EXPECT_EQ(calls.calls(CallKind::open), 2);
  EXPECT_EQ(calls.calls(CallKind::close), 2);
}

TEST_F(ExecutorTest, ProgressRisesToTheTotalAndNeverOverlaps) {
  for_each_program(20, 9, [](const RandomProgram&, const CopyProgram& program) {
    RunOptions options = threads(4);
    std::mutex alone;
    int64_t before = 0;
    options.progress = [&](const Progress& progress) {
      ASSERT_TRUE(alone.try_lock()) << "two callbacks at once";
      EXPECT_GT(progress.bytes_done, before);
      EXPECT_EQ(progress.bytes_total, program.target_bytes());
      EXPECT_FALSE(progress.tensor.empty());
      before = progress.bytes_done;
      alone.unlock();
    };
    testing::executed(system_calls(), program, kTiny, options);
    EXPECT_EQ(before, program.target_bytes());
  });
}

TEST_F(ExecutorTest, ProgressOfALaterStartCountsWhatWasMadeBefore) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  const auto tiles = make_schedule(program, testing::own_spaces(program), {10, 64});
  testing::CollectSink sink(program);
  RunOptions options = threads(1);
  std::vector<int64_t> done;
  options.progress = [&](const Progress& progress) { done.push_back(progress.bytes_done); };
  execute(system_calls(), program, tiles, 13, {10, 64}, sink, options);
  EXPECT_EQ(done, (std::vector<int64_t>{140, 150}));
}

TEST_F(ExecutorTest, WhatTheProgressCallbackThrowsEndsTheRun) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  RunOptions options = threads(4);
  options.progress = [](const Progress&) { throw std::runtime_error("enough"); };
  EXPECT_THROW(testing::executed(system_calls(), program, kTiny, options), std::runtime_error);
}

TEST_F(ExecutorTest, AStopRequestEndsTheRunAsCancelled) {
  const CopyProgram program = testing::write_sources(two_files(folder_.path()));
  for (int count : {1, 4}) {
    std::stop_source stop;
    RunOptions options = threads(count);
    options.stop = stop.get_token();
    options.progress = [&](const Progress& progress) {
      if (progress.bytes_done > 20) stop.request_stop();
    };
    const auto error =
        refusal_of([&] { testing::executed(system_calls(), program, kTiny, options); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace weightloom
