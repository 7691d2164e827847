// A checkpoint of tensors that a program holds in memory, with the texts that would stand beside
// them: whatever works on a checkpoint works on it, and reads the tensors where they lie.
// Thread safety: an immutable value.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/memory_files.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/header.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What messages call the folder that such a checkpoint seems to stand in.
inline constexpr std::string_view kMemoryFolder = "(in memory)";

/// A tensor in memory: row-major, without gaps.
struct MemoryTensor {
  TensorSpec spec;                   ///< name, dtype, shape
  std::span<const std::byte> bytes;  ///< borrowed
};

/// A file beside the tensors, such as config.json: name and text.
using SideText = std::pair<std::string, std::string>;

/// A checkpoint in memory, and the file seam that has it; see the top of this file.
class MemoryCheckpoint {
 public:
  /// One file, `model.safetensors`, as the safetensors package would lay it out. The tensors' bytes
  /// are borrowed for as long as the checkpoint is read.
  /// Errors: usage if a name is empty or repeated, or a size disagrees with dtype and shape.
  static MemoryCheckpoint make(const std::vector<MemoryTensor>& tensors, Metadata metadata,
                               std::vector<SideText> texts = {},
                               const Syscalls& others = system_calls());

  /// Its tensors, as if they stood in `model.safetensors`.
  const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  /// To give with it to whatever reads it; has the files of `others` too.
  const Syscalls& calls() const noexcept { return files_->calls(); }

 private:
  MemoryCheckpoint(std::unique_ptr<MemoryFiles> files, Checkpoint checkpoint);

  std::unique_ptr<MemoryFiles> files_;
  Checkpoint checkpoint_;
};

}  // namespace weightloom
