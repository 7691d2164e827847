#include "weightloom/execute/tied_values.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/execute/executor.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {
namespace {

/// Keeps the bytes of one tile.
class OneTileSink : public TileSink {
 public:
  explicit OneTileSink(int64_t size_bytes) : bytes_(static_cast<size_t>(size_bytes)) {}

  std::span<std::byte> memory_for(const Tile&) override { return bytes_; }
  void deliver(size_t, const Tile&, std::span<const std::byte>) override {}
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// The program of the target of that name alone.
CopyProgram program_of(const CopyProgram& program, std::string_view name) {
  std::vector<bool> keep;
  for (const ProgramTarget& target : program.targets()) keep.push_back(target.name == name);
  return select_targets(program, keep);
}

bool is_alike(const ProgramTarget& a, const ProgramTarget& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

/// Compares two targets a tile at a time.
class PairComparison {
 public:
  PairComparison(const Syscalls& calls, const RunOptions& run)
      : calls_(calls), run_(run), limits_(limits_for(run.memory_budget_bytes / 2, 1)) {
    run_.threads = 1;
    run_.progress = {};
  }

  bool equal(const CopyProgram& a, const CopyProgram& b) const {
    if (a.targets().empty() || b.targets().empty()) return false;
    if (!is_alike(a.targets()[0], b.targets()[0])) return false;
    const Placement whole{0, 0};
    const std::vector<Tile> tiles = make_schedule(a, {&whole, 1}, limits_);
    return std::ranges::all_of(tiles,
                               [&](const Tile& tile) { return made(a, tile) == made(b, tile); });
  }

 private:
  std::vector<std::byte> made(const CopyProgram& program, const Tile& tile) const {
    OneTileSink sink(tile.size_bytes);
    execute(calls_, program, {&tile, 1}, 0, limits_, sink, run_);
    return sink.bytes();
  }

  const Syscalls& calls_;
  RunOptions run_;
  ScheduleLimits limits_;
};

/// The pairs of which a load restores the first from the names that are left.
std::vector<TiedName> restored_later(const Conversion& conversion, std::vector<TiedName> pairs) {
  std::set<std::string> names;
  for (const ProgramTarget& target : conversion.program.targets()) names.insert(target.name);
  for (const TiedName& pair : pairs) names.erase(pair.name);
  const std::vector<std::string> left(names.begin(), names.end());
  const auto restored = resolve_tied(expand_tied(conversion.ties, left), left, {}).restored;
  std::erase_if(pairs, [&](const TiedName& pair) {
    return std::ranges::find(restored, pair.name, &TiedName::name) == restored.end();
  });
  return pairs;
}

}  // namespace

TiedValues compare_tied(const Syscalls& calls, const Conversion& conversion,
                        const RunOptions& run) {
  const PairComparison comparison(calls, run);
  TiedValues values;
  for (const TiedName& pair : conversion.tied_but_stored) {
    const CopyProgram first = program_of(conversion.program, pair.name);
    const CopyProgram second = program_of(conversion.program, pair.same_as);
    (comparison.equal(first, second) ? values.equal : values.different).push_back(pair);
  }
  return values;
}

std::vector<Finding> tied_findings(const std::vector<TiedName>& different) {
  std::vector<Finding> findings;
  for (const TiedName& pair : different) {
    findings.push_back(
        {Severity::report, "tied_values_differ", pair.name, "",
         fmt::format("config.json says that '{}' and '{}' are tied, but their values differ: both "
                     "are kept, and tie_word_embeddings should be false",
                     pair.name, pair.same_as)});
  }
  return findings;
}

Conversion without_equal_ties(const Syscalls& calls, Conversion conversion, const RunOptions& run) {
  const TiedValues values = compare_tied(calls, conversion, run);
  std::ranges::move(tied_findings(values.different), std::back_inserter(conversion.findings));
  const std::vector<TiedName> droppable = restored_later(conversion, values.equal);
  if (droppable.empty()) return conversion;
  std::set<std::string_view> dropped;
  for (const TiedName& pair : droppable) dropped.insert(pair.name);
  std::vector<bool> keep;
  for (const ProgramTarget& target : conversion.program.targets()) {
    keep.push_back(!dropped.contains(target.name));
  }
  conversion = with_targets_kept(std::move(conversion), keep);
  conversion.tied.insert(conversion.tied.end(), droppable.begin(), droppable.end());
  conversion.tied_but_stored = values.different;
  return conversion;
}

}  // namespace weightloom
