// The writer's end of a conversion: tiles into preallocated files, made durable in steps.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/file.h"
#include "weightloom/execute/executor.h"
#include "weightloom/execute/journal_internal.h"
#include "weightloom/execute/kept_files_internal.h"
#include "weightloom/execute/output_file_internal.h"
#include "weightloom/safetensors/shard_layout.h"

namespace weightloom {

/// Makes a file of an output in `folder`, at its full size with its header; `keep`: what stands
/// there already is its data. Errors: as OutputFile.
OutputFile begin_file(const Syscalls& calls, const std::string& folder, const ShardFile& shard,
                      bool keep);

/// Writes parts in space i of a schedule into file i of a layout. Space offsets are file offsets.
/// Thread safety: as TileSink.
class FileSink : public TileSink {
 public:
  /// Creates those files in `folder` that are to be written, at their full size with their headers;
  /// with `first_tile` > 0 keeps what an earlier run wrote. Borrows all arguments but `origins`.
  FileSink(const Syscalls& calls, const std::string& folder, const ShardLayout& layout,
           std::span<const FileOrigin> origins, std::span<const Tile> tiles, size_t first_tile,
           Journal& journal);

  std::span<std::byte> memory_for(const Tile&) override { return {}; }
  void deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) override;
  /// Makes durable and closes what is not yet. Call when all tiles are delivered.
  void finish();

 private:
  void create_files(const Syscalls& calls, const std::string& folder, const ShardLayout& layout,
                    std::span<const FileOrigin> origins);
  /// Tile counts up to which it is worth making all durable: the end of each file, and every GiB.
  void find_marks();
  std::optional<size_t> note_done(size_t index);
  void make_durable(size_t done);

  std::span<const Tile> tiles_;
  size_t first_tile_;
  Journal& journal_;
  std::vector<std::optional<OutputFile>> files_;  // those that are written
  std::vector<size_t> marks_;

  std::mutex done_mutex_;
  std::vector<bool> done_;
  size_t done_before_;  // all tiles before it are delivered
  size_t next_mark_ = 0;

  std::mutex durable_mutex_;
  size_t durable_before_;  // all tiles before it are durable
};

}  // namespace weightloom
