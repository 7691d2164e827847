// From a published checkpoint to the ranks of one layout, from there to those of any other, and
// back to the published bytes: by parallel save, over every transport.
#include <atomic>

#include <gtest/gtest.h>

#include "weightloom/base/forwarding_syscalls_testing.h"
#include "weightloom/comm/group_runs_testing.h"
#include "weightloom/comm/parallel_save_testing.h"

namespace weightloom::testing {
namespace {

/// One way to spread the model over four ranks.
struct Spreading {
  const char* mesh;
  const char* placements;
  bool long_runs;  ///< each rank's part is made of whole rows of what is stored
};

constexpr Spreading kSpreadings[] = {
    {"fsdp=4", R"([{"pattern": "*", "placements": [{"axis": "fsdp", "shard": 0}]}])", true},
    {"ep=2,fsdp=2", R"([
       {"pattern": "*.experts.*", "placements": [{"axis": "ep", "shard": 0},
                                                 {"axis": "fsdp", "shard": 0}]},
       {"pattern": "*", "placements": [{"axis": "fsdp", "shard": 0}]}])",
     true},
    {"tp=4", R"([
       {"pattern": "*.experts.gate_up_proj",
        "placements": [{"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}]},
       {"pattern": "*.experts.down_proj", "placements": [{"axis": "tp", "shard": 2}]},
       {"pattern": "*", "placements": []}])",
     false},
    {"dp=2,tp=2", R"([
       {"pattern": "*.experts.gate_up_proj", "placements": [{"axis": "tp", "shard": 2}]},
       {"pattern": "*.experts.down_proj",
        "placements": [{"axis": "tp", "shard": 0, "rule": "round_robin"}]},
       {"pattern": "*", "placements": [{"axis": "tp", "shard": 0, "rule": "balanced"}]}])",
     false},
};

/// Counts what is read of files.
class CountingReads : public ForwardingSyscalls {
 public:
  using ForwardingSyscalls::ForwardingSyscalls;

  int64_t pread(int fd, std::span<std::byte> buffer, int64_t offset) const override {
    return counted(ForwardingSyscalls::pread(fd, buffer, offset));
  }
  int64_t preadv(int fd, std::span<const std::span<std::byte>> buffers,
                 int64_t offset) const override {
    return counted(ForwardingSyscalls::preadv(fd, buffers, offset));
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t counted(int64_t read) const {
    bytes_ += std::max<int64_t>(read, 0);
    return read;
  }
  mutable std::atomic<int64_t> bytes_ = 0;
};

/// This rank's part; of long runs nothing is read but that.
LoadedState load_counted(const std::string& path, const Spreading& layout, int64_t rank) {
  LoadedState loaded = load_part(path, spread(layout.mesh, layout.placements, Side::runtime), rank);
  if (!layout.long_runs) return loaded;
  const Checkpoint source = Checkpoint::open(system_calls(), path);
  const Conversion mine = for_ranks(
      plan_conversion(system_calls(), source, spread(layout.mesh, layout.placements, Side::runtime),
                      Registry::built_in()),
      std::span(&rank, 1));
  const CountingReads counting(system_calls());
  const LoadedTensors again = load(counting, mine.program, {});
  EXPECT_EQ(counting.bytes(), mine.program.target_bytes());
  return loaded;
}

/// Saves the state as the ranks of another layout hold it, each rank's file.
void reshard(ProcessGroup& group, const LoadedState& loaded, const Spreading& to,
             const std::string& destination) {
  ParallelSaveOptions options = to_hub();
  options.selection = spread(to.mesh, to.placements, Side::runtime);
  options.selection.from = Side::runtime;
  options.sharded = true;
  ParallelSave save(group, loaded.state, Registry::built_in(), options);
  save.save(loaded.local, destination);
}

void go_round(ProcessGroup& group, const Spreading& a, const Spreading& b) {
  const GroupFolder folder(group);
  const TinyModel model{.layers = 1, .experts = 4, .hidden = 10, .ffn = 12};
  if (group.rank() == 0) write_folder(folder / "hub", hub_files(1 << 30, model));
  group.barrier();
  reshard(group, load_counted(folder / "hub", a, group.rank()), b, folder / "parts");
  group.barrier();
  const LoadedState held =
      load_part(folder / "parts", spread(b.mesh, b.placements, Side::runtime), group.rank());
  ParallelSave save(group, held.state, Registry::built_in(), to_hub());
  save.save(held.local, folder / "back");
  group.barrier();
  EXPECT_EQ(read_tensors(folder / "back"), read_tensors(folder / "hub"))
      << a.mesh << " to " << b.mesh;
}

TEST(RoundTripTest, AnyLayoutToAnyOtherAndBackGivesThePublishedBytes) {
  on_every_rank([](ProcessGroup& group) {
    for (const Spreading& a : kSpreadings) {
      for (const Spreading& b : kSpreadings) go_round(group, a, b);
    }
  });
}

}  // namespace
}  // namespace weightloom::testing
