// A sink that compares what is made with tensors that are stored. Private to the room.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "weightloom/execute/executor.h"
#include "weightloom/execute/source_files_internal.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// Compares each tile with the same bytes of tensors of a checkpoint.
class CompareSink : public TileSink {
 public:
  /// `stored[i]`: the tensor of `checkpoint` that target i must equal. Borrows `calls`.
  CompareSink(const Syscalls& calls, const Checkpoint& checkpoint,
              std::vector<const StoredTensor*> stored);

  std::span<std::byte> memory_for(const Tile&) override { return {}; }
  void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) override;

  /// First differing byte by target.
  const std::map<int32_t, int64_t>& first_differences() const { return differences_; }

 private:
  void compare(const Piece& piece, std::span<const std::byte> made);
  void note(int32_t target, int64_t byte);

  std::vector<ProgramFile> files_;
  SourceFiles open_;
  std::vector<const StoredTensor*> stored_;
  std::mutex mutex_;
  std::map<int32_t, int64_t> differences_;
};

}  // namespace weightloom
