// A parallel save, planned: what all ranks write, and this rank's share of it.
// Thread safety: an immutable value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/comm/parallel_save.h"
#include "weightloom/comm/save_division_internal.h"
#include "weightloom/comm/state_files_internal.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

class SavePlan {
 public:
  /// Errors: as ParallelSave, on this rank.
  SavePlan(ShardedState state, const Registry& registry, ParallelSaveOptions options,
           const Syscalls& calls, int64_t rank);
  SavePlan(const SavePlan&) = delete;
  SavePlan& operator=(const SavePlan&) = delete;

  const Conversion& conversion() const noexcept { return conversion_; }
  const CopyProgram& program() const noexcept { return conversion_.program; }
  /// The state as a sharded folder, with holes for tensors.
  const Checkpoint& source() const noexcept { return source_; }
  const ShardLayout& layout() const noexcept { return layout_; }
  const ParallelSaveOptions& options() const noexcept { return options_; }
  const ScheduleLimits& limits() const noexcept { return limits_; }
  const SourceHolders& source_holders() const noexcept { return source_holders_; }
  /// What this rank makes alone.
  std::span<const Tile> own_tiles() const noexcept { return own_; }
  /// What ranks make together: of all ranks.
  std::span<const SharedTile> shared_tiles() const noexcept { return shared_; }
  /// What the messages of a batch may take.
  int64_t batch_bytes() const noexcept { return options_.run.memory_budget_bytes / 2; }

  /// Stands for all that ranks must have alike.
  uint64_t digest() const;

  /// As source(), with what this rank holds.
  MemoryFiles files_with(const LocalBytes& local, const Syscalls& calls) const;
  /// The bytes of each source of the program that is here; none of the others.
  std::vector<std::span<const std::byte>> sources_in(const LocalBytes& local) const;

 private:
  void find_source_holders();
  std::vector<int64_t> holders_of(const ProgramSource& source) const;
  void divide_work();

  ShardedState state_;
  ParallelSaveOptions options_;
  int64_t rank_;
  Holders holders_;
  MemoryFiles outline_;
  Checkpoint source_;
  Conversion conversion_;
  ShardLayout layout_;
  ScheduleLimits limits_;
  SourceHolders source_holders_;
  std::vector<Tile> own_;
  std::vector<SharedTile> shared_;
};

}  // namespace weightloom
