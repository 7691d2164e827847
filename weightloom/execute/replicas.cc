#include "weightloom/execute/replicas.h"

#include <utility>

#include <fmt/format.h>

#include "weightloom/execute/compare_sink_internal.h"
#include "weightloom/execute/comparison_internal.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/compile.h"

namespace weightloom {
namespace {

/// A program that makes each copy as it is stored.
CopyProgram program_of_copies(const Checkpoint& checkpoint, std::span<const Replica> replicas) {
  std::vector<ProgramSource> sources;
  std::vector<NamedLayout> copies;
  for (const Replica& replica : replicas) {
    const StoredTensor& tensor = checkpoint.tensors()[static_cast<size_t>(replica.copy)];
    const auto id = static_cast<SourceId>(sources.size());
    sources.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.file, tensor.offset_bytes,
                       tensor.size_bytes});
    copies.push_back({fmt::to_string(id), tensor.dtype, identity(id, tensor.shape)});
  }
  return compile(files_of(checkpoint), std::move(sources), std::move(copies)).program;
}

Finding difference(const Checkpoint& checkpoint, const Replica& replica, int64_t byte) {
  const StoredTensor& copy = checkpoint.tensors()[static_cast<size_t>(replica.copy)];
  const StoredTensor& owner = checkpoint.tensors()[static_cast<size_t>(replica.owner)];
  const std::string& mine = checkpoint.files()[static_cast<size_t>(copy.file)].name;
  const std::string& theirs = checkpoint.files()[static_cast<size_t>(owner.file)].name;
  return {Severity::error, "replicas_differ", copy.name, mine,
          fmt::format("{}: tensor '{}' differs from the one in {}, first at byte {}, but both are "
                      "replicas of one part",
                      mine, copy.name, theirs, byte)};
}

}  // namespace

std::vector<Finding> compare_replicas(const Syscalls& calls, const Checkpoint& checkpoint,
                                      std::span<const Replica> replicas, const RunOptions& run) {
  std::vector<Finding> findings;
  if (replicas.empty()) return findings;
  std::vector<const StoredTensor*> owners;
  for (const Replica& replica : replicas) {
    owners.push_back(&checkpoint.tensors()[static_cast<size_t>(replica.owner)]);
  }
  CompareSink sink(calls, checkpoint, std::move(owners));
  RunOptions quiet = run;
  quiet.progress = {};
  run_targets_apart(calls, program_of_copies(checkpoint, replicas), sink, quiet);
  for (const auto& [target, byte] : sink.first_differences()) {
    findings.push_back(difference(checkpoint, replicas[static_cast<size_t>(target)], byte));
  }
  return findings;
}

void refuse_differing_replicas(const Syscalls& calls, const Checkpoint& checkpoint,
                               std::span<const Replica> replicas, const RunOptions& run) {
  std::vector<Finding> findings = compare_replicas(calls, checkpoint, replicas, run);
  if (findings.empty()) return;
  std::string message = findings.front().message;
  if (findings.size() > 1) message += fmt::format(" (and {} more)", findings.size() - 1);
  throw Error(ErrorCode::checkpoint, message,
              "find out which rank is right; --trust-replicas takes the first rank's",
              std::move(findings));
}

}  // namespace weightloom
