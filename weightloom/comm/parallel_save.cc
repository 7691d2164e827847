#include "weightloom/comm/parallel_save.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/comm/agreement.h"
#include "weightloom/comm/save_plan_internal.h"
#include "weightloom/comm/shared_files_internal.h"
#include "weightloom/comm/tile_exchange_internal.h"
#include "weightloom/comm/wire_internal.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/output_folder_internal.h"
#include "weightloom/execute/work_folder_internal.h"

namespace weightloom {
namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void refuse_other_ranks(const LayoutManifest& manifest, const ProcessGroup& group) {
  if (manifest.meshes.size() == group.size()) return;
  throw Error(ErrorCode::usage,
              fmt::format("the state is of {} ranks ({}), and the group has {}",
                          manifest.meshes.size(), to_string(manifest.meshes), group.size()));
}

void refuse_single_file(const std::string& destination) {
  if (!is_single_file(destination)) return;
  throw Error(ErrorCode::usage, fmt::format("{}: a parallel save writes a folder", destination),
              "leave the ending .safetensors out");
}

LocalBytes by_name(std::span<const LocalTensorBytes> tensors) {
  LocalBytes local;
  for (const LocalTensorBytes& tensor : tensors) {
    if (local.emplace(tensor.name, tensor.bytes).second) continue;
    throw Error(ErrorCode::usage, fmt::format("tensor '{}' is given twice", tensor.name));
  }
  return local;
}

/// Adds up what all ranks counted.
std::map<int32_t, int64_t> summed(ProcessGroup& group, const std::map<int32_t, int64_t>& mine) {
  WireWriter writer;
  writer.put(std::ssize(mine));
  for (const auto& [target, count] : mine) {
    writer.put(int64_t{target});
    writer.put(count);
  }
  std::map<int32_t, int64_t> sums;
  for (const auto& bytes : group.all_gather_v(std::move(writer).bytes())) {
    WireReader reader(bytes);
    for (int64_t left = reader.number(); left > 0; --left) {
      const auto target = static_cast<int32_t>(reader.number());
      sums[target] += reader.number();
    }
  }
  return sums;
}

/// One save on its way to disk. Rank 0 makes the folder and puts it in place.
class Saving {
 public:
  Saving(ProcessGroup& group, const Syscalls& calls, const SavePlan& plan,
         const std::string& destination)
      : group_(group),
        calls_(calls),
        plan_(plan),
        work_(calls, without_trailing_slash(destination), false),
        files_(calls, work_.out(), plan.layout()) {}

  ParallelSaveReport save(std::span<const LocalTensorBytes> local) && {
    run_agreed(group_, [&] {
      refuse_single_file(work_.destination());
      take_stock(local);
    });
    try {
      run_agreed(group_, [&] { prepare_folder(); });
      write_tensors();
      run_agreed(group_, [&] { complete_folder(); });
      run_agreed(group_, [&] { publish(); });
    } catch (...) {
      discard_work();
      throw;
    }
    clear_up();
    return std::move(report_);
  }

 private:
  bool leads() const noexcept { return group_.rank() == 0; }

  void take_stock(std::span<const LocalTensorBytes> local) {
    local_ = by_name(local);
    memory_.emplace(plan_.files_with(local_, calls_));
    for (const ShardFile& file : plan_.layout().files()) report_.files.push_back(file.name);
    report_.targets = std::ssize(plan_.program().targets());
    report_.target_bytes = plan_.program().target_bytes();
    report_.findings = plan_.conversion().findings;
  }

  void prepare_folder() {
    if (!leads()) return;
    work_.prepare(plan_.options().output.overwrite);
    has_work_ = true;
    work_.start_over();
    refuse_full_disk(calls_, work_.parent(), plan_.layout().total_file_bytes());
    files_.create();
  }

  /// First what each rank makes alone: an error there ends the save before anything is exchanged.
  void write_tensors() {
    run_agreed(group_, [&] { write_own(); });
    run_agreed(group_, [&] { write_shared(); });
    run_agreed(group_, [&] { files_.finish(); });
    refuse_missing_bytes();
    RunStatistics all;
    all.not_finite = summed(group_, not_finite_);
    for (Finding& finding : cast_findings(plan_.program(), all)) {
      report_.findings.push_back(std::move(finding));
    }
  }

  void write_own() {
    const RunStatistics done = execute(memory_->calls(), plan_.program(), plan_.own_tiles(), 0,
                                       plan_.limits(), files_, plan_.options().run);
    not_finite_ = done.not_finite;
    report_.peak_working_bytes = done.peak_working_bytes;
  }

  void write_shared() {
    const auto sources = plan_.sources_in(local_);
    const ExchangeSide side{plan_.program(), plan_.source_holders(), sources, group_.rank(),
                            plan_.options().run};
    TileExchange exchange(side);
    exchange.run(group_, plan_.shared_tiles(), plan_.batch_bytes(), files_);
    for (const auto& [target, count] : exchange.not_finite()) not_finite_[target] += count;
    report_.bytes_sent = exchange.bytes_sent();
    report_.peak_working_bytes = std::max(report_.peak_working_bytes, exchange.peak_bytes());
  }

  void refuse_missing_bytes() {
    report_.bytes_written = files_.bytes_written();
    const int64_t all = group_.all_reduce(Reduction::sum, report_.bytes_written);
    if (all == report_.target_bytes) return;
    throw Error(ErrorCode::io, fmt::format("{}: the ranks wrote {} bytes of tensors, needed {}",
                                           work_.destination(), all, report_.target_bytes));
  }

  void complete_folder() {
    const RunOptions& run = plan_.options().run;
    if (run.stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
    if (!leads()) return;
    const auto& manifest = plan_.conversion().manifest;
    const OutputFolder folder{memory_->calls(),
                              plan_.source(),
                              plan_.conversion().provenance,
                              plan_.layout(),
                              work_,
                              plan_.conversion().dtype,
                              std::nullopt,
                              manifest ? std::optional(format_manifest(*manifest)) : std::nullopt};
    folder.write_beside_tensors();
    folder.refuse_if_unreadable(run.threads);
    sync_tree(calls_, work_.out());
    sync_folder(calls_, work_.path());
  }

  void publish() {
    if (leads()) work_.publish();
  }

  void discard_work() noexcept {
    if (!has_work_) return;
    try {
      work_.remove();
    } catch (const Error&) {
      return;  // the first failure is the one to report; the next save clears the folder
    }
  }

  /// The destination is in place: what still goes wrong is told, but is no failure.
  void clear_up() {
    if (!leads()) return;
    try {
      work_.remove();
    } catch (const Error& error) {
      report_.findings.push_back(
          {Severity::report, "work_folder_left", "", work_.path(), error.what()});
    }
  }

  ProcessGroup& group_;
  const Syscalls& calls_;
  const SavePlan& plan_;
  WorkFolder work_;
  SharedFiles files_;
  LocalBytes local_;
  std::optional<MemoryFiles> memory_;
  bool has_work_ = false;  // this rank claimed the work folder
  std::map<int32_t, int64_t> not_finite_;
  ParallelSaveReport report_;
};

}  // namespace

struct ParallelSave::Planned {
  Planned(ShardedState state, const Registry& registry, const ParallelSaveOptions& options,
          const Syscalls& calls, int64_t rank)
      : plan(std::move(state), registry, options, calls, rank) {}

  SavePlan plan;
};

ParallelSave::ParallelSave(ProcessGroup& group, ShardedState state, const Registry& registry,
                           const ParallelSaveOptions& options, const Syscalls& calls)
    : group_(group), calls_(calls) {
  run_agreed(group_, [&] {
    refuse_other_ranks(state.manifest, group_);
    planned_ =
        std::make_unique<const Planned>(std::move(state), registry, options, calls_, group_.rank());
  });
  require_equal(group_, planned_->plan.digest(), "the plan of the save");
}

ParallelSave::~ParallelSave() = default;

const Conversion& ParallelSave::conversion() const noexcept { return planned_->plan.conversion(); }

ParallelSaveReport ParallelSave::save(std::span<const LocalTensorBytes> local,
                                      const std::string& destination) {
  return Saving(group_, calls_, planned_->plan, destination).save(local);
}

}  // namespace weightloom
