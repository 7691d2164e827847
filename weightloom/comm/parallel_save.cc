#include "weightloom/comm/parallel_save.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "weightloom/comm/agreement.h"
#include "weightloom/comm/save_plan_internal.h"
#include "weightloom/comm/shared_folder_internal.h"
#include "weightloom/comm/tile_exchange_internal.h"
#include "weightloom/comm/wire_internal.h"
#include "weightloom/execute/cast_findings.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/output_folder_internal.h"

namespace weightloom {
namespace {

void refuse_other_ranks(const LayoutManifest& manifest, const ProcessGroup& group) {
  if (manifest.meshes.size() == group.size()) return;
  throw Error(ErrorCode::usage,
              fmt::format("the state is of {} ranks ({}), and the group has {}",
                          manifest.meshes.size(), to_string(manifest.meshes), group.size()));
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

/// One save on its way to disk.
class Saving {
 public:
  Saving(ProcessGroup& group, const Syscalls& calls, const SavePlan& plan)
      : group_(group), calls_(calls), plan_(plan) {}

  ParallelSaveReport save(std::span<const LocalTensorBytes> local, const std::string& destination) {
    run_agreed(group_, [&] { take_stock(local); });
    const SharedContent content{plan_.layout(), report_.target_bytes,
                                plan_.options().output.overwrite,
                                [&](SharedFiles& files) { write_tensors(files); },
                                [&](const WorkFolder& work) { write_beside_tensors(work); }};
    SharedOutcome outcome = build_shared_folder(group_, calls_, destination, content);
    report_.bytes_written = outcome.bytes_written;
    if (outcome.left_over) report_.findings.push_back(*std::move(outcome.left_over));
    return std::move(report_);
  }

 private:
  void take_stock(std::span<const LocalTensorBytes> local) {
    local_ = by_name(local);
    memory_.emplace(plan_.files_with(local_, calls_));
    for (const ShardFile& file : plan_.layout().files()) report_.files.push_back(file.name);
    report_.targets = std::ssize(plan_.program().targets());
    report_.target_bytes = plan_.program().target_bytes();
    report_.findings = plan_.conversion().findings;
  }

  /// First what each rank makes alone: an error there ends the save before anything is exchanged.
  void write_tensors(SharedFiles& files) {
    run_agreed(group_, [&] { write_own(files); });
    run_agreed(group_, [&] { write_shared(files); });
    run_agreed(group_, [&] { refuse_if_stopped(); });
    RunStatistics all;
    all.not_finite = summed(group_, not_finite_);
    for (Finding& finding : cast_findings(plan_.program(), all)) {
      report_.findings.push_back(std::move(finding));
    }
  }

  void write_own(SharedFiles& files) {
    const RunStatistics done = execute(memory_->calls(), plan_.program(), plan_.own_tiles(), 0,
                                       plan_.limits(), files, plan_.options().run);
    not_finite_ = done.not_finite;
    report_.peak_working_bytes = done.peak_working_bytes;
  }

  void write_shared(SharedFiles& files) {
    const auto sources = plan_.sources_in(local_);
    const ExchangeSide side{plan_.program(), plan_.source_holders(), sources, group_.rank(),
                            plan_.options().run};
    TileExchange exchange(side);
    exchange.run(group_, plan_.shared_tiles(), plan_.batch_bytes(), files);
    for (const auto& [target, count] : exchange.not_finite()) not_finite_[target] += count;
    report_.bytes_sent = exchange.bytes_sent();
    report_.peak_working_bytes = std::max(report_.peak_working_bytes, exchange.peak_bytes());
  }

  void refuse_if_stopped() const {
    if (!plan_.options().run.stop.stop_requested()) return;
    throw Error(ErrorCode::cancelled, "cancelled by the caller");
  }

  void write_beside_tensors(const WorkFolder& work) const {
    const auto& manifest = plan_.conversion().manifest;
    const OutputFolder folder{memory_->calls(),
                              plan_.source(),
                              plan_.conversion().provenance,
                              plan_.layout(),
                              work,
                              plan_.conversion().config,
                              std::nullopt,
                              manifest ? std::optional(format_manifest(*manifest)) : std::nullopt};
    folder.write_beside_tensors();
    refuse_if_unreadable(memory_->calls(), work, plan_.options().run.threads);
  }

  ProcessGroup& group_;
  const Syscalls& calls_;
  const SavePlan& plan_;
  LocalBytes local_;
  std::optional<MemoryFiles> memory_;
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
  return Saving(group_, calls_, planned_->plan).save(local, destination);
}

}  // namespace weightloom
