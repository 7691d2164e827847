// What `plan` says: the facts of a conversion that has not run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/rank_summary.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/cost.h"

namespace weightloom::cli {

struct PlanReport {
  Conversion conversion;
  bool lenient = false;
  std::string source;  // its path
  int64_t source_tensors = 0;
  Cost cost;                   // of what is planned: all ranks in one process, or one rank
  int64_t resident_bytes = 0;  // of this process, without buffers
  int64_t disk_bytes_needed = 0;
  int64_t disk_bytes_free = 0;  // where the source stands

  std::vector<RankSummary> ranks;  // with a mesh: those planned, ascending

  int64_t peak_memory_bytes() const noexcept { return cost.working_memory_bytes + resident_bytes; }
  bool is_refused() const noexcept { return conversion.is_refused(lenient); }
};

/// Compiles and costs as without ranks; reads headers only.
/// Errors: as plan_conversion.
PlanReport make_plan(const Syscalls& calls, const Checkpoint& source, const Selection& selection,
                     const RunOptions& run);

/// What a program costs with its targets one after another in one space.
Cost cost_of_conversion(const CopyProgram& program, const RunOptions& run);
/// As cost_of_conversion, by a counter that knows what programs of the same form cost.
Cost cost_of_conversion(const CopyProgram& program, CostCounter& costs);
/// The names of a target's sources that stand in files, in order of first use: of what is computed
/// those of all that it is computed from.
std::vector<std::string_view> source_names(const CopyProgram& program, const ProgramTarget& target);

}  // namespace weightloom::cli
