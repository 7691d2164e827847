// What each rank of a mesh would do, made one rank at a time: beside the program of the whole
// tensors only one rank's is held.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/rank_summary.h"

namespace weightloom::cli {

/// A rank's part of a plan; its program lives until another rank is asked for.
struct RankPlan {
  int64_t rank = 0;
  const CopyProgram& program;  // what the rank makes
  std::vector<size_t> wholes;  // per target: its place in RankPlans::whole()
  Cost cost;
  int64_t disk_bytes_needed = 0;

  RankSummary summary() const;
};

/// The ranks of a planned conversion. Borrows the report's source and the system's calls.
class RankPlans {
 public:
  /// `report` has a spread. Targets whose placements are refused are left out.
  RankPlans(const Syscalls& calls, const Checkpoint& source, const PlanReport& report,
            const RunOptions& run);

  int64_t world_size() const noexcept { return spread_.meshes.size(); }
  /// The whole tensors that the ranks have parts of, and how each is spread.
  const CopyProgram& whole() const noexcept { return whole_; }
  const Spread& spread() const noexcept { return spread_; }

  /// Precondition: 0 ≤ rank < world_size(). The plan borrows from this.
  RankPlan of(int64_t rank);
  /// Calls `visit` for these ranks, in order; each plan lives until `visit` returns.
  void for_each(std::span<const int64_t> ranks, const std::function<void(const RankPlan&)>& visit);
  /// What one process does that makes all ranks' parts, tensor by tensor: parts that have the same
  /// stretch of a file share what is read of it, and so each source byte is needed once.
  Cost together() const;

 private:
  Cost cost_of_parts(size_t target) const;

  const Syscalls& calls_;
  const Checkpoint& source_;
  RunOptions run_;
  bool is_refused_ = false;
  CopyProgram whole_;
  Spread spread_;
  CostCounter costs_;
  Conversion rank_conversion_;  // of the rank asked for last
};

}  // namespace weightloom::cli
