#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"
#include "weightloom/base/fault_syscalls_testing.h"
#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/execute/file_sink_internal.h"
#include "weightloom/layout/layout_testing.h"
#include "weightloom/plan/random_program_testing.h"
#include "weightloom/plan/tiny_checkpoint_testing.h"

namespace weightloom {
namespace {

using testing::RandomProgram;
using testing::test_seed;

constexpr ScheduleLimits kSmall{.tile_bytes = 64, .worker_bytes = 512};
constexpr int kFiles = 3;

/// Targets of a random program dealt out to three files, so that families lie in several.
struct Job {
  explicit Job(const CopyProgram& copies) : program(copies) {
    std::vector<TensorSpec> specs;
    Index index;
    for (const ProgramTarget& target : program.targets()) {
      const std::string file = "f" + std::to_string(specs.size() % kFiles) + ".safetensors";
      specs.push_back({target.name, target.dtype, target.shape});
      index.weight_map.emplace_back(target.name, file);
    }
    layout = ShardLayout::like_index(specs, index, {});
    for (const TensorPlace& place : layout->places()) {
      placements.push_back({place.file, place.offset_bytes});
    }
    tiles = make_schedule(program, placements, kSmall);
    origins.assign(layout->files().size(), FileOrigin::written);
  }

  /// Writes tiles from `first` on, into `folder`.
  void run(const Syscalls& calls, const std::string& folder, size_t first, Journal& journal,
           int threads) const {
    FileSink sink(calls, folder, *layout, origins, tiles, first, journal);
    RunOptions options;
    options.threads = threads;
    execute(calls, program, tiles, first, kSmall, sink, options);
    sink.finish();
  }

  std::vector<Bytes> written(const std::string& folder) const {
    std::vector<Bytes> targets;
    for (size_t i = 0; i < placements.size(); ++i) {
      const ShardFile& file = layout->files()[static_cast<size_t>(placements[i].space)];
      const std::string whole = read_whole_file(system_calls(), join_path(folder, file.name));
      const auto bytes = std::as_bytes(std::span(whole))
                             .subspan(static_cast<size_t>(placements[i].offset_bytes),
                                      static_cast<size_t>(program.targets()[i].size_bytes));
      targets.emplace_back(bytes.begin(), bytes.end());
    }
    return targets;
  }

  const CopyProgram& program;
  std::optional<ShardLayout> layout;
  std::vector<Placement> placements;
  std::vector<Tile> tiles;
  std::vector<FileOrigin> origins;
};

class FileSinkTest : public ::testing::Test {
 protected:
  template <typename Check>
  void for_each_job(int count, Check check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const uint64_t seed = test_seed() + static_cast<uint64_t>(i);
      SCOPED_TRACE(::testing::Message() << "WEIGHTLOOM_SEED=" << seed);
      const RandomProgram random = testing::random_program(seed, 12, folder_.path());
      const CopyProgram program = testing::write_sources(random);
      make_folder(system_calls(), out());
      check(random.expected(), Job(program));
      remove_all(system_calls(), out());
    }
  }

  std::string out() const { return folder_ / "out"; }
  std::string journal_path() const { return folder_ / "journal"; }

  TemporaryFolder folder_;
};

TEST_F(FileSinkTest, FilesHoldWhatTheInterpreterMakes) {
  size_t most_parts = 0;
  for_each_job(60, [&](const std::vector<Bytes>& expected, const Job& job) {
    for (const Tile& tile : job.tiles) most_parts = std::max(most_parts, tile.parts.size());
    for (const int threads : {1, 4}) {
      Journal journal = Journal::create(testing::quick_calls(), journal_path(), "0");
      job.run(testing::quick_calls(), out(), 0, journal, threads);
      EXPECT_EQ(job.written(out()), expected);
      EXPECT_EQ(read_journal(system_calls(), journal_path())->tiles, std::ssize(job.tiles));
    }
  });
  EXPECT_GT(most_parts, 1U);
}

TEST_F(FileSinkTest, WhatTheJournalCountsIsDurableInEveryFileOfItsTiles) {
  for_each_job(25, [&](const std::vector<Bytes>& expected, const Job& job) {
    for (int64_t stop = 30; stop < 300; stop += 13) {
      FaultSyscalls calls(testing::quick_calls());
      Journal journal = Journal::create(calls, journal_path(), "0");
      for (const ShardFile& file : job.layout->files()) {
        write_whole_file(calls, join_path(out(), file.name), "");
      }
      sync_folder(calls, out());  // the names last; it is what the files hold that is in question
      calls.crash_at(stop);
      const auto error = refusal_of([&] { job.run(calls, out(), 0, journal, 1); });
      // The journal's last lines may have reached the disk by themselves.
      const auto state = read_journal(system_calls(), journal_path());
      calls.lose_unsynced_data();
      const auto first = static_cast<size_t>(state->tiles);
      Journal again = Journal::create(testing::quick_calls(), journal_path(), "0");
      job.run(testing::quick_calls(), out(), first, again, 2);
      EXPECT_EQ(job.written(out()), expected) << "stopped at call " << stop;
      if (!error) break;
    }
  });
}

}  // namespace
}  // namespace weightloom
