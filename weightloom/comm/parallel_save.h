// Parallel save: ranks that hold parts of tensors write one ordinary checkpoint together, or a
// sharded folder, without gathering and without a second pass.
//
// The state is described to all ranks alike: whole tensors, and how each is spread. From that, all
// compute the same plan: names, mapping, files, offsets, and who writes which bytes. Each rank
// writes its own byte ranges of the final files, which one rank has made at full size; of replicas
// one holder writes each stretch, the holders in turn. Where what ranks hold alternates in runs too
// short to write, parts go to one rank first, batch by batch within the memory budget. When all is
// written, counted and durable, one rank adds what stands beside the tensors, the index last, and
// puts the folder in place in one step. Until then the old checkpoint is there, whole, whatever
// fails.
// The folder must be one file system for all ranks.
// Thread safety: as the group. All calls are collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/comm/process_group.h"
#include "weightloom/execute/output_layout.h"
#include "weightloom/execute/progress.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/conversion.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/memory_checkpoint.h"
#include "weightloom/sharding/layout_manifest.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What the ranks of a program hold together; all of them describe it alike.
struct ShardedState {
  LayoutManifest manifest;        ///< tensors sorted by name; as many ranks as the group has
  std::vector<SideText> texts{};  ///< to stand beside the tensors: config.json, …
};

/// What this rank holds of a tensor. Borrows the bytes.
struct LocalTensorBytes {
  std::string name;                  ///< as in the manifest
  std::span<const std::byte> bytes;  ///< of the shape that the sharding gives for this rank
};

/// How a state is saved; all ranks say the same, but for progress and stop.
struct ParallelSaveOptions {
  Selection selection{};  ///< what the checkpoint is to hold; `to`: hub for a runtime's state
  /// A sharded folder is written, each target spread as the state's tensor of that name and shape;
  /// or over the selection's meshes, if it has some.
  bool sharded = false;
  OutputOptions output{};  ///< not resume, not checksums
  RunOptions run{};        ///< of this rank
};

/// What a save did.
struct ParallelSaveReport {
  std::vector<std::string> files;  ///< of tensors, in order
  int64_t targets = 0;             ///< tensors of the checkpoint
  int64_t target_bytes = 0;        ///< of these tensors
  int64_t bytes_written = 0;       ///< of these, by this rank
  int64_t bytes_sent = 0;          ///< by this rank to others, before they were written
  int64_t peak_working_bytes = 0;  ///< tiles, staging and messages of this rank at once, at most
  std::vector<Finding> findings;   ///< the plan's and the output's reports
};

/// A planned save, to be made again and again, as training goes on.
class ParallelSave {
 public:
  /// Plans. Borrows `group` and `calls`.
  /// Errors, on all ranks: usage if the state has another number of ranks than the group, or an
  /// option is not for this; plan if the conversion is refused, or ranks describe different states;
  /// as plan_conversion and output_layout.
  ParallelSave(ProcessGroup& group, ShardedState state, const Registry& registry,
               const ParallelSaveOptions& options, const Syscalls& calls = system_calls());
  ~ParallelSave();
  ParallelSave(const ParallelSave&) = delete;
  ParallelSave& operator=(const ParallelSave&) = delete;

  /// What is written; its findings say what is worth knowing.
  const Conversion& conversion() const noexcept;

  /// Writes the folder `destination` from what this rank and the others hold now. Replicas are
  /// taken to be equal.
  /// Errors, on all ranks: usage if a rank gives other tensors or sizes than it holds (all named);
  /// exists, permission, not_found, no_space, io, cancelled. After any of them the destination is
  /// as it was, but for an io that the folder above it could not be made durable.
  ParallelSaveReport save(std::span<const LocalTensorBytes> local, const std::string& destination);

 private:
  struct Planned;
  ProcessGroup& group_;
  const Syscalls& calls_;
  std::unique_ptr<const Planned> planned_;
};

}  // namespace weightloom
