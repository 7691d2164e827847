#include <algorithm>
#include <memory>
#include <utility>

#include "weightloom/base/file.h"
#include "weightloom/base/workers.h"
#include "weightloom/execute/hash_sink_internal.h"

namespace weightloom {

HashSink::HashSink(const CopyProgram& program, std::vector<bool> wanted, TileSink& next)
    : program_(program),
      wanted_(std::move(wanted)),
      next_(next),
      progress_(program.targets().size()) {}

void HashSink::deliver(size_t index, const Tile& tile, std::span<const std::byte> bytes) {
  next_.deliver(index, tile, bytes);
  for (const Piece& piece : tile.pieces) {
    if (!wanted_[static_cast<size_t>(piece.target)]) continue;
    const auto size = static_cast<size_t>(piece.end_bytes - piece.begin_bytes);
    add(piece, bytes.subspan(static_cast<size_t>(piece.at_bytes), size));
  }
}

void HashSink::add(const Piece& piece, std::span<const std::byte> bytes) {
  const auto target = static_cast<size_t>(piece.target);
  Progress& progress = progress_[target];
  {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return abandoned_ || progress.hashed_bytes == piece.begin_bytes; });
    if (abandoned_) return;
  }
  // Until hashed_bytes moves on, this target is this worker's alone.
  if (!progress.hash) progress.hash.emplace();
  progress.hash->add(bytes);
  if (piece.end_bytes == program_.targets()[target].size_bytes) {
    progress.digest = progress.hash->digest();
    progress.hash.reset();
  }
  const std::lock_guard lock(mutex_);
  progress.hashed_bytes = piece.end_bytes;
  moved_.notify_all();
}

void HashSink::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    moved_.notify_all();
  }
  next_.abandon();
}

std::vector<std::string> HashSink::digests() const {
  std::vector<std::string> digests;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const bool is_empty = program_.targets()[i].size_bytes == 0;
    digests.push_back(wanted_[i] && is_empty ? TensorHash().digest() : progress_[i].digest);
  }
  return digests;
}

std::vector<std::string> digests_of(const Syscalls& calls, std::span<const StoredBytes> tensors,
                                    const RunOptions& run) {
  constexpr int64_t kChunkBytes = int64_t{1} << 20;
  std::vector<std::string> digests(tensors.size());
  for_each_item(run.threads, 0, tensors.size(), run.stop, [&](size_t, size_t item) {
    const StoredBytes& tensor = tensors[item];
    const File file = File::open_read(calls, tensor.path);
    const auto chunk = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<size_t>(std::min(kChunkBytes, tensor.size_bytes)));
    TensorHash hash;
    for (int64_t at = 0; at < tensor.size_bytes; at += kChunkBytes) {
      if (run.stop.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
      const int64_t size = std::min(kChunkBytes, tensor.size_bytes - at);
      const std::span part(chunk.get(), static_cast<size_t>(size));
      file.read_at(part, tensor.offset_bytes + at);
      hash.add(part);
    }
    digests[item] = hash.digest();
  });
  return digests;
}

}  // namespace weightloom
