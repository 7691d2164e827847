#include <utility>

#include "weightloom/execute/file_sink_internal.h"
#include "weightloom/execute/work_folder_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kMarkBytes = int64_t{1} << 30;

}  // namespace

FileSink::FileSink(const Syscalls& calls, const std::string& folder, const ShardLayout& layout,
                   std::span<const FileOrigin> origins, std::span<const Tile> tiles,
                   size_t first_tile, Journal& journal)
    : tiles_(tiles),
      first_tile_(first_tile),
      journal_(journal),
      done_(tiles.size(), false),
      done_before_(first_tile),
      durable_before_(first_tile) {
  create_files(calls, folder, layout, origins);
  find_marks();
}

void FileSink::create_files(const Syscalls& calls, const std::string& folder,
                            const ShardLayout& layout, std::span<const FileOrigin> origins) {
  for (size_t i = 0; i < layout.files().size(); ++i) {
    files_.emplace_back();
    if (origins[i] != FileOrigin::written) continue;
    const ShardFile& shard = layout.files()[i];
    make_folders_for(calls, folder, shard.name);
    const std::string path = join_path(folder, shard.name);
    OutputFile file(calls, path, shard.header.file_bytes(), first_tile_ > 0);
    const std::string header = shard.header.bytes();
    file.write(std::as_bytes(std::span(header)), 0);
    files_.back() = std::move(file);
  }
}

void FileSink::find_marks() {
  int64_t since = 0;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    since += tiles_[i].size_bytes;
    const bool ends_file = i + 1 == tiles_.size() || tiles_[i + 1].space != tiles_[i].space;
    if (i < first_tile_ || (!ends_file && since < kMarkBytes)) continue;
    marks_.push_back(i + 1);
    since = 0;
  }
}

void FileSink::deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) {
  files_[static_cast<size_t>(tile.space)]->write(bytes, tile.begin_bytes);
  const std::optional<size_t> mark = note_done(index);
  if (!mark) return;
  // One worker waits for the disk; the others go on. A mark that comes meanwhile is left to
  // finish().
  const std::unique_lock lock(durable_mutex_, std::try_to_lock);
  if (lock.owns_lock()) make_durable(*mark);
}

/// Gives the latest mark that this tile completed, if any.
std::optional<size_t> FileSink::note_done(size_t index) {
  const std::lock_guard lock(done_mutex_);
  done_[index] = true;
  while (done_before_ < done_.size() && done_[done_before_]) ++done_before_;
  std::optional<size_t> mark;
  while (next_mark_ < marks_.size() && marks_[next_mark_] <= done_before_) {
    mark = marks_[next_mark_++];
  }
  return mark;
}

void FileSink::make_durable(size_t done) {
  if (done <= durable_before_) return;
  const auto first = static_cast<size_t>(tiles_[durable_before_].space);
  const auto last = static_cast<size_t>(tiles_[done - 1].space);
  for (size_t i = first; i <= last; ++i) {
    if (files_[i]) files_[i]->sync();
  }
  durable_before_ = done;
  journal_.record_tiles(static_cast<int64_t>(done));
}

void FileSink::finish() {
  make_durable(tiles_.size());
  for (std::optional<OutputFile>& file : files_) {
    if (!file) continue;
    file->sync();  // a file without tiles has a header all the same
    file->close();
  }
}

}  // namespace weightloom
