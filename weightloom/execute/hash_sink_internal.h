// Digests of tensors, computed while their tiles pass or read from the files they stand in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/tensor_hash_internal.h"
#include "weightloom/plan/program.h"

namespace weightloom {

/// Hands every tile on to another sink, and hashes the pieces of each target in their order: a
/// worker whose piece is not the next one waits for that. Tiles are handed out in ascending order,
/// so the tile waited for is in another worker's hands; if that worker fails, abandon() ends the
/// wait.
/// Thread safety: as TileSink. Borrows the other sink and the program.
class HashSink : public TileSink {
 public:
  /// Hashes target i if `wanted[i]`; all its tiles must pass.
  HashSink(const CopyProgram& program, std::vector<bool> wanted, TileSink& next);

  std::span<std::byte> memory_for(const Tile& tile) override { return next_.memory_for(tile); }
  void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) override;
  void abandon() noexcept override;

  /// Per target, once all tiles are delivered; "" if it was not wanted.
  std::vector<std::string> digests() const;

 private:
  /// How far the bytes of a target are hashed.
  struct Progress {
    int64_t hashed_bytes = 0;
    std::optional<TensorHash> hash;  // between the first piece and the last
    std::string digest;
  };

  void add(const Piece& piece, std::span<const std::byte> bytes);

  const CopyProgram& program_;
  const std::vector<bool> wanted_;
  TileSink& next_;
  std::mutex mutex_;
  std::condition_variable moved_;
  bool abandoned_ = false;
  std::vector<Progress> progress_;
};

/// Bytes of a tensor in a file.
struct StoredBytes {
  std::string path;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
};

/// The digests of tensors that are on disk, read on up to `run.threads` threads.
/// Errors: not_found, io, cancelled.
std::vector<std::string> digests_of(const Syscalls& calls, std::span<const StoredBytes> tensors,
                                    const RunOptions& run);

}  // namespace weightloom
