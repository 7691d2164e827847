#include "weightloom/base/file.h"
#include "weightloom/comm/shared_files_internal.h"
#include "weightloom/execute/file_sink_internal.h"

namespace weightloom {

void SharedFiles::create() {
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i] = begin_file(calls_, folder_, layout_.files()[i], false);
  }
}

const OutputFile& SharedFiles::file(int32_t space) {
  const auto i = static_cast<size_t>(space);
  const std::lock_guard lock(mutex_);
  if (!files_[i]) {
    const ShardFile& shard = layout_.files()[i];
    files_[i].emplace(calls_, join_path(folder_, shard.name), shard.header.file_bytes(), true);
  }
  return *files_[i];
}

void SharedFiles::deliver(size_t, const Tile& tile, std::span<const std::byte> bytes) {
  for (const TilePart& part : tile.parts) {
    write(part.space, part.begin_bytes,
          bytes.subspan(static_cast<size_t>(part.at_bytes), static_cast<size_t>(part.size_bytes)));
  }
}

void SharedFiles::write(int32_t space, int64_t begin_bytes, std::span<const std::byte> bytes) {
  file(space).write(bytes, begin_bytes);
  bytes_written_ += std::ssize(bytes);
}

void SharedFiles::finish() {
  for (std::optional<OutputFile>& file : files_) {
    if (!file) continue;
    file->sync();
    file->close();
  }
}

}  // namespace weightloom
