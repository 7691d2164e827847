// A checkpoint with the file seam that has it, and whatever else it needs alive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/memory_checkpoint.h"

namespace weightloom::python {

/// A checkpoint in files or in memory; immutable, shared by all that work on it.
class Source {
 public:
  /// Errors: as Checkpoint::open.
  static std::shared_ptr<const Source> open(const std::string& path, int threads);
  /// `owner` keeps the tensors' memory.
  static std::shared_ptr<const Source> in_memory(MemoryCheckpoint memory,
                                                 std::shared_ptr<const void> owner);

  const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  const Syscalls& calls() const noexcept { return memory_ ? memory_->calls() : system_calls(); }
  bool is_in_memory() const noexcept { return memory_ != nullptr; }

 private:
  explicit Source(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  std::shared_ptr<const void> owner_;
  std::unique_ptr<const MemoryCheckpoint> memory_;
  Checkpoint checkpoint_;
};

using SourcePtr = std::shared_ptr<const Source>;

}  // namespace weightloom::python
