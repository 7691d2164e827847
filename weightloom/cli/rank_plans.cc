#include "weightloom/cli/rank_plans.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "weightloom/execute/convert.h"
#include "weightloom/plan/program_form.h"
#include "weightloom/plan/rank_programs.h"

namespace weightloom::cli {
namespace {

/// Findings of check_spread: such targets have no parts.
bool refuses_placements(const Finding& finding) {
  constexpr std::array<std::string_view, 3> kCodes = {"bad_sharding", "bad_partition",
                                                      "inside_byte"};
  return finding.severity == Severity::error && std::ranges::count(kCodes, finding.code) > 0;
}

std::set<std::string_view> names_refused(std::span<const Finding> findings) {
  std::set<std::string_view> names;
  for (const Finding& finding : findings) {
    if (refuses_placements(finding)) names.insert(finding.tensor);
  }
  return names;
}

/// Tells targets apart by what their parts cost: those of one form with one sharding are alike.
class Cuts {
 public:
  using Key = std::pair<ProgramForm, size_t>;

  Cuts(const CopyProgram& whole, const Spread& spread) : whole_(whole), spread_(spread) {}

  Key key_of(size_t target) {
    const std::array<Placement, 1> at = {};
    const CopyProgram one = whole_.with_targets({whole_.targets()[target]});
    return {form_of(one, at), number_of(spread_.shardings[target])};
  }

 private:
  size_t number_of(const Sharding& sharding) {
    const auto is_it = [&](const Sharding* known) { return *known == sharding; };
    const auto found = std::ranges::find_if(shardings_, is_it);
    const auto number = static_cast<size_t>(found - shardings_.begin());
    if (found == shardings_.end()) shardings_.push_back(&sharding);
    return number;
  }

  const CopyProgram& whole_;
  const Spread& spread_;
  std::vector<const Sharding*> shardings_;  // those that differ
};

}  // namespace

RankSummary RankPlan::summary() const {
  RankSummary summary;
  summary.rank = rank;
  summary.targets = static_cast<int64_t>(program.targets().size());
  summary.bytes_needed = cost.bytes_needed;
  summary.bytes_read = cost.bytes_read;
  summary.bytes_written = cost.bytes_written;
  summary.regions = cost.regions;
  summary.files = cost.files;
  return summary;
}

RankPlans::RankPlans(const Syscalls& calls, const Checkpoint& source, const PlanReport& report,
                     const RunOptions& run)
    : calls_(calls),
      source_(source),
      run_(run),
      is_refused_(report.is_refused()),
      costs_(limits_for(run.memory_budget_bytes, run.threads), run.threads),
      rank_conversion_(for_ranks(report.conversion, {})) {
  const Conversion& conversion = report.conversion;
  const std::set<std::string_view> refused = names_refused(conversion.findings);
  std::vector<ProgramTarget> targets;
  spread_.meshes = conversion.spread->meshes;
  spread_.is_part = conversion.spread->is_part;
  for (size_t i = 0; i < conversion.program.targets().size(); ++i) {
    const ProgramTarget& target = conversion.program.targets()[i];
    if (refused.contains(target.name)) continue;
    targets.push_back(target);
    spread_.shardings.push_back(conversion.spread->shardings[i]);
  }
  whole_ = conversion.program.with_targets(std::move(targets));
  rank_conversion_.spread.reset();  // its manifest says the same
}

RankPlan RankPlans::of(int64_t rank) {
  const std::array<int64_t, 1> ranks = {rank};
  RankPrograms made = program_of_ranks(whole_, spread_, ranks);
  rank_conversion_.program = std::move(made.program);
  rank_conversion_.ranks = std::move(made.ranks);
  rank_conversion_.made_ranks = {rank};
  RankPlan plan{rank, rank_conversion_.program, std::move(made.wholes), {}, 0};
  plan.cost = cost_of_conversion(plan.program, costs_);
  // A refused conversion has no files; what its sound targets take is the nearest there is.
  plan.disk_bytes_needed =
      is_refused_ ? plan.cost.bytes_written
                  : disk_bytes_needed(calls_, source_, rank_conversion_, "out", OutputOptions{});
  return plan;
}

void RankPlans::for_each(std::span<const int64_t> ranks,
                         const std::function<void(const RankPlan&)>& visit) {
  for (const int64_t rank : ranks) visit(of(rank));
}

/// Of all ranks' parts of one target, made in one process.
Cost RankPlans::cost_of_parts(size_t target) const {
  std::vector<int64_t> ranks(static_cast<size_t>(world_size()));
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  const CopyProgram one = whole_.with_targets({whole_.targets()[target]});
  const Spread spread{spread_.meshes, {spread_.shardings[target]}, spread_.is_part};
  return cost_of_conversion(program_of_ranks(one, spread, ranks).program, run_);
}

Cost RankPlans::together() const {
  Cost all = cost_of_conversion(whole_, run_);
  if (spread_.is_part) all.bytes_needed = 0;
  all.bytes_read = all.bytes_written = all.regions = all.tiles = all.working_memory_bytes = 0;
  Cuts cuts(whole_, spread_);
  std::map<Cuts::Key, Cost> known;
  for (size_t i = 0; i < whole_.targets().size(); ++i) {
    const auto [found, is_new] = known.try_emplace(cuts.key_of(i));
    if (is_new) found->second = cost_of_parts(i);
    const Cost& cost = found->second;
    if (spread_.is_part) all.bytes_needed += cost.bytes_needed;
    all.bytes_read += cost.bytes_read;
    all.bytes_written += cost.bytes_written;
    all.regions += cost.regions;
    all.tiles += cost.tiles;
    all.working_memory_bytes = std::max(all.working_memory_bytes, cost.working_memory_bytes);
  }
  return all;
}

}  // namespace weightloom::cli
