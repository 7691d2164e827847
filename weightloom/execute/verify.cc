#include "weightloom/execute/verify.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/file.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/checksums.h"
#include "weightloom/execute/compare_sink_internal.h"
#include "weightloom/execute/comparison_internal.h"
#include "weightloom/execute/hash_sink_internal.h"
#include "weightloom/execute/replicas.h"
#include "weightloom/plan/compile.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/safetensors/rank_files.h"

namespace weightloom {
namespace {

/// Reads nothing but lets the executor read: every byte of the checkpoint passes through a tile.
class NullSink : public TileSink {
 public:
  std::span<std::byte> memory_for(const Tile&) override { return {}; }
  void deliver(size_t, const Tile&, std::span<const std::byte>) override {}
};

/// A comparison of B, brought to A's layout, with A.
class Comparison {
 public:
  Comparison(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
             const Selection& selection, const Registry& registry, const RunOptions& run)
      : calls_(calls), a_(a), b_(b), selection_(selection), registry_(registry), run_(run) {}

  VerifyReport compare() && {
    Conversion conversion = bring_to_layout_of(calls_, a_, b_, selection_, registry_, run_.threads);
    report_.findings = std::move(conversion.findings);
    const CopyProgram shared = match_targets(conversion);
    find_only_in_a(conversion.program);
    compare_values(shared);
    sort_differences();
    return std::move(report_);
  }

 private:
  /// The targets that A has with equal dtype and shape; the others are differences.
  CopyProgram match_targets(const Conversion& conversion) {
    const CopyProgram& program = conversion.program;
    std::vector<bool> keep;
    for (size_t i = 0; i < program.targets().size(); ++i) {
      const ProgramTarget& target = program.targets()[i];
      const StoredTensor* stored =
          a_.is_sharded() ? part_of_rank(target.name, conversion.ranks[i]) : a_.find(target.name);
      keep.push_back(stored != nullptr && agrees(*stored, target));
      if (keep.back()) stored_.push_back(stored);
      if (stored == nullptr) {
        add(target.name, "only_in_b", fmt::format("'{}' is in B alone", target.name));
      }
    }
    return select_targets(program, keep);
  }

  /// What a rank of A has of a tensor; null if it has nothing.
  const StoredTensor* part_of_rank(const std::string& name, int64_t rank) const {
    const auto ranks = static_cast<int64_t>(a_.files().size());
    for (const StoredTensor& part :
         std::ranges::equal_range(a_.tensors(), name, {}, &StoredTensor::name)) {
      if (a_.files()[static_cast<size_t>(part.file)].name == rank_file_name(rank, ranks)) {
        return &part;
      }
    }
    return nullptr;
  }

  bool agrees(const StoredTensor& a, const ProgramTarget& b) {
    if (a.dtype != b.dtype) {
      add(a.name, "dtype",
          fmt::format("'{}' is {} in A, {} in B", a.name, to_string(a.dtype), to_string(b.dtype)));
      return false;
    }
    if (a.shape != b.shape) {
      add(a.name, "shape",
          fmt::format("'{}' is {} in A, {} in B", a.name, to_string(a.shape), to_string(b.shape)));
      return false;
    }
    return true;
  }

  void find_only_in_a(const CopyProgram& program) {
    std::vector<std::string_view> names;
    for (const ProgramTarget& target : program.targets()) names.push_back(target.name);
    std::sort(names.begin(), names.end());
    std::string_view before;
    for (const StoredTensor& tensor : a_.tensors()) {
      if (std::exchange(before, tensor.name) == tensor.name) continue;  // another rank's part
      if (!is_selected(selection_, tensor.name)) continue;
      if (std::binary_search(names.begin(), names.end(), tensor.name)) continue;
      add(tensor.name, "only_in_a", fmt::format("'{}' is in A alone", tensor.name));
    }
  }

  void compare_values(const CopyProgram& shared) {
    CompareSink sink(calls_, a_, stored_);
    const RunStatistics done = run_targets_apart(calls_, shared, sink, run_);
    std::ranges::move(cast_findings(shared, done), std::back_inserter(report_.findings));
    report_.tensors = static_cast<int64_t>(shared.targets().size());
    report_.bytes = shared.target_bytes();
    for (const auto& [target, byte] : sink.first_differences()) {
      const std::string& name = shared.targets()[static_cast<size_t>(target)].name;
      add(name, "values", fmt::format("'{}' differs, first at byte {}", name, byte));
    }
  }

  void add(const std::string& tensor, std::string code, std::string message) {
    report_.differences.push_back({tensor, std::move(code), std::move(message)});
  }

  void sort_differences() {
    std::sort(report_.differences.begin(), report_.differences.end(),
              [](const Difference& x, const Difference& y) { return x.tensor < y.tensor; });
    report_.equal = report_.differences.empty();
  }

  const Syscalls& calls_;
  const Checkpoint& a_;
  const Checkpoint& b_;
  const Selection& selection_;
  const Registry& registry_;
  const RunOptions& run_;
  std::vector<const StoredTensor*> stored_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_readable(const Syscalls& calls, const Checkpoint& a, const RunOptions& run) {
  Selection as_is;
  as_is.mapping = "none";
  const Conversion conversion = plan_conversion(calls, a, as_is, Registry());
  if (conversion.is_refused(false)) throw refusal_of(conversion.findings, false);
  const std::optional<Checksums> checksums = read_checksums(calls, a);
  NullSink nowhere;
  HashSink sink(conversion.program,
                std::vector<bool>(conversion.program.targets().size(), checksums.has_value()),
                nowhere);
  VerifyReport report;
  run_targets_apart(calls, conversion.program, sink, run);
  report.tensors = static_cast<int64_t>(conversion.program.targets().size());
  report.bytes = conversion.program.target_bytes();
  report.findings = conversion.findings;
  for (Finding& finding : compare_replicas(calls, a, conversion.replicas, run)) {
    report.differences.push_back(
        {finding.tensor, std::move(finding.code), std::move(finding.message)});
    report.equal = false;
  }
  if (!checksums) return report;
  report.has_checksums = true;
  for (Finding& finding : compare_checksums(*checksums, a, sink.digests())) {
    report.findings.push_back(std::move(finding));
  }
  return report;
}

VerifyReport verify_equal(const Syscalls& calls, const Checkpoint& a, const Checkpoint& b,
                          const Selection& selection, const Registry& registry,
                          const RunOptions& run) {
  return Comparison(calls, a, b, selection, registry, run).compare();
}

}  // namespace weightloom
