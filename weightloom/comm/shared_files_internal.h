// The files of an output that several ranks write at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/syscalls.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/output_file_internal.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom {

/// Writes parts in space i into file i of a layout. Each file is opened when it is first written.
/// Thread safety: as TileSink. Borrows all arguments.
class SharedFiles : public TileSink {
 public:
  SharedFiles(const Syscalls& calls, const std::string& folder, const ShardLayout& layout)
      : calls_(calls), folder_(folder), layout_(layout), files_(layout.files().size()) {}

  /// Makes all files, at full size with their headers; before any rank writes.
  void create();
  std::span<std::byte> memory_for(const Tile&) override { return {}; }
  void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) override;
  /// Writes bytes at a place of a file. Thread safety: as deliver.
  void write(int32_t file, int64_t begin_bytes, std::span<const std::byte> bytes);
  /// Makes durable and closes what was opened here.
  void finish();

  /// Bytes that were delivered.
  int64_t bytes_written() const noexcept { return bytes_written_; }

 private:
  const OutputFile& file(int32_t space);

  const Syscalls& calls_;
  const std::string& folder_;
  const ShardLayout& layout_;
  std::mutex mutex_;
  std::vector<std::optional<OutputFile>> files_;
  std::atomic<int64_t> bytes_written_ = 0;
};

}  // namespace weightloom
