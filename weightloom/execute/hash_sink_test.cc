#include <cerrno>
#include <stdexcept>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/executor_testing.h"
#include "weightloom/execute/hash_sink_internal.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/plan/random_program_testing.h"

namespace weightloom {
namespace {

using testing::RandomProgram;
using testing::test_seed;

constexpr ScheduleLimits kTiny{.tile_bytes = 7, .worker_bytes = 32};
constexpr ScheduleLimits kSmall{.tile_bytes = 64, .worker_bytes = 512};

std::string digest_of(const Bytes& bytes) {
  TensorHash hash;
  hash.add(bytes);
  return hash.digest();
}

class HashSinkTest : public ::testing::Test {
 protected:
  /// All targets one after the other in one space, so that tiles hold pieces of several.
  static std::vector<Placement> one_space(const CopyProgram& program) {
    std::vector<Placement> placements;
    int64_t offset = 0;
    for (const ProgramTarget& target : program.targets()) {
      placements.push_back({0, offset});
      offset += target.size_bytes;
    }
    return placements;
  }

  static std::vector<bool> all(const CopyProgram& program) {
    return std::vector<bool>(program.targets().size(), true);
  }

  TemporaryFolder folder_;
};

TEST_F(HashSinkTest, DigestsAreOfTheTargetsWhateverTilesAndThreads) {
  for (uint64_t seed = test_seed(); seed < test_seed() + 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
    const RandomProgram random = testing::random_program(seed, 12, folder_.path());
    const CopyProgram program = testing::write_sources(random);
    std::vector<std::string> expected;
    for (const Bytes& bytes : random.expected()) expected.push_back(digest_of(bytes));
    for (int threads : {1, 8}) {
      for (const ScheduleLimits& limits : {kTiny, kSmall}) {
        for (const auto& placements : {testing::own_spaces(program), one_space(program)}) {
          testing::CollectSink collect(program);
          HashSink sink(program, all(program), collect);
          RunOptions run;
          run.threads = threads;
          execute(system_calls(), program, make_schedule(program, placements, limits), 0, limits,
                  sink, run);
          EXPECT_EQ(sink.digests(), expected);
          EXPECT_EQ(collect.targets(), random.expected());
        }
      }
    }
  }
}

TEST_F(HashSinkTest, AFailingTileEndsTheWaitOfTheOthers) {
  const RandomProgram random = testing::random_program(test_seed(), 12, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  const std::vector<Tile> tiles = make_schedule(program, one_space(program), kTiny);
  for (int64_t number = 0; number < 60; ++number) {
    FaultSyscalls calls;
    calls.fail_call(number, EIO);
    testing::CollectSink collect(program);
    HashSink sink(program, all(program), collect);
    RunOptions run;
    run.threads = 8;
    try {
      execute(calls, program, tiles, 0, kTiny, sink, run);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
  }
}

TEST_F(HashSinkTest, WhatTheProgressCallbackThrowsComesOut) {
  const RandomProgram random = testing::random_program(test_seed(), 12, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  testing::CollectSink collect(program);
  HashSink sink(program, all(program), collect);
  RunOptions run;
  run.threads = 8;
  run.progress = [](const Progress&) { throw std::runtime_error("enough"); };
  EXPECT_THROW(execute(system_calls(), program, make_schedule(program, one_space(program), kTiny),
                       0, kTiny, sink, run),
               std::runtime_error);
}

TEST_F(HashSinkTest, TargetsThatAreNotWantedAreLeftAlone) {
  const RandomProgram random = testing::random_program(test_seed(), 12, folder_.path());
  const CopyProgram program = testing::write_sources(random);
  testing::CollectSink collect(program);
  HashSink sink(program, std::vector<bool>(program.targets().size(), false), collect);
  execute(system_calls(), program, make_schedule(program, one_space(program), kTiny), 0, kTiny,
          sink, {});
  for (const std::string& digest : sink.digests()) EXPECT_EQ(digest, "");
}

TEST_F(HashSinkTest, DigestsOfStoredBytesAreReadFromTheirPlaces) {
  const std::string text(5'000'000, 'x');
  write_whole_file(system_calls(), folder_ / "f", "ab" + text + "c");
  const std::vector<StoredBytes> stored{{folder_ / "f", 2, 5'000'000}, {folder_ / "f", 1, 0}};
  TensorHash hash;
  hash.add(std::as_bytes(std::span(text)));
  EXPECT_EQ(digests_of(system_calls(), stored, {}),
            (std::vector<std::string>{hash.digest(), TensorHash().digest()}));
  const std::vector<StoredBytes> beyond{{folder_ / "f", 2, 5'000'002}};
  EXPECT_EQ(refusal_of([&] { digests_of(system_calls(), beyond, {}); }).value().code(),
            ErrorCode::io);
}

}  // namespace
}  // namespace weightloom
