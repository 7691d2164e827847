#include <set>
#include <utility>

#include "weightloom/execute/file_sink_internal.h"
#include "weightloom/execute/work_folder_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kMarkBytes = int64_t{1} << 30;

int32_t first_space(const Tile& tile) { return tile.parts.front().space; }

}  // namespace

OutputFile begin_file(const Syscalls& calls, const std::string& folder, const ShardFile& shard,
                      bool keep) {
  make_folders_for(calls, folder, shard.name);
  OutputFile file(calls, join_path(folder, shard.name), shard.header.file_bytes(), keep);
  const std::string header = shard.header.bytes();
  file.write(std::as_bytes(std::span(header)), 0);
  return file;
}

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
    files_.back() = begin_file(calls, folder, layout.files()[i], first_tile_ > 0);
  }
}

void FileSink::find_marks() {
  int64_t since = 0;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    since += tiles_[i].made_bytes();
    const bool ends_file =
        i + 1 == tiles_.size() || first_space(tiles_[i + 1]) != first_space(tiles_[i]);
    if (i < first_tile_ || (!ends_file && since < kMarkBytes)) continue;
    marks_.push_back(i + 1);
    since = 0;
  }
}

void FileSink::deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) {
  for (const TilePart& part : tile.parts) {
    const auto from =
        bytes.subspan(static_cast<size_t>(part.at_bytes), static_cast<size_t>(part.size_bytes));
    files_[static_cast<size_t>(part.space)]->write(from, part.begin_bytes);
  }
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
  std::set<int32_t> written;
  for (const Tile& tile : tiles_.subspan(durable_before_, done - durable_before_)) {
    for (const TilePart& part : tile.parts) written.insert(part.space);
  }
  for (const int32_t space : written) files_[static_cast<size_t>(space)]->sync();
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
