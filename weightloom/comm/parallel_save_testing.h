// For tests: a tiny model, loaded by the ranks of a group, each its part, and saved by them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/temporary_folder_testing.h"
#include "weightloom/comm/parallel_save.h"
#include "weightloom/execute/convert_testing.h"
#include "weightloom/execute/load.h"

namespace weightloom::testing {

/// A folder of rank 0's that all ranks see. Collective, when made and when it goes.
class GroupFolder {
 public:
  explicit GroupFolder(ProcessGroup& group) : group_(group) {
    if (group.rank() == 0) path_ = mine_.emplace(fast_temporary_parent()).path();
    int64_t size = std::ssize(path_);
    group.broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
    path_.resize(static_cast<size_t>(size));
    group.broadcast(0, std::as_writable_bytes(std::span(path_)));
  }
  ~GroupFolder() {
    try {
      group_.barrier();
    } catch (const Error&) {
      return;  // the test ends with an abort; whoever waits is released
    }
  }
  GroupFolder(const GroupFolder&) = delete;
  GroupFolder& operator=(const GroupFolder&) = delete;

  std::string operator/(std::string_view name) const { return join_path(path_, name); }

 private:
  ProcessGroup& group_;
  std::optional<TemporaryFolder> mine_;
  std::string path_;
};

/// What a rank has after it loaded its part of a checkpoint.
struct LoadedState {
  ShardedState state;
  LoadedTensors memory;
  std::vector<LocalTensorBytes> local;
};

inline LoadedState load_part(const std::string& path, const Selection& selection, int64_t rank) {
  const Checkpoint source = Checkpoint::open(system_calls(), path);
  const Conversion whole = plan_conversion(system_calls(), source, selection, Registry::built_in());
  if (whole.is_refused(false)) throw refusal_of(whole.findings, false);
  const Conversion all = for_all_ranks(whole);
  const Conversion mine = for_ranks(whole, std::span(&rank, 1));
  LoadedState loaded{{*all.manifest, {}}, load(system_calls(), mine.program, {}), {}};
  for (const std::string name : {"config.json", "tokenizer.json"}) {
    loaded.state.texts.emplace_back(name, read_whole_file(system_calls(), join_path(path, name)));
  }
  for (size_t i = 0; i < mine.program.targets().size(); ++i) {
    loaded.local.push_back({mine.program.targets()[i].name, loaded.memory.tensors[i]});
  }
  return loaded;
}

inline Selection spread(const std::string& mesh, const std::string& placements, Side to) {
  Selection selection;
  selection.to = to;
  selection.meshes = MeshSet::parse(mesh);
  selection.placements = parse_placements(placements, "placements.json");
  return selection;
}

/// To a hub checkpoint, in shards of at most 100 kB, on two threads and the least budget for them.
inline ParallelSaveOptions to_hub() {
  ParallelSaveOptions options;
  options.selection.to = Side::hub;
  options.output.max_shard_bytes = 100'000;
  options.output.max_shard_given = true;
  options.run.threads = 2;
  options.run.memory_budget_bytes = 4 << 20;
  return options;
}

}  // namespace weightloom::testing
