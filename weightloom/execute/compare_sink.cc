#include <algorithm>
#include <memory>
#include <utility>

#include "weightloom/execute/compare_sink_internal.h"
#include "weightloom/execute/comparison_internal.h"

namespace weightloom {

CompareSink::CompareSink(const Syscalls& calls, const Checkpoint& checkpoint,
                         std::vector<const StoredTensor*> stored)
    : files_(files_of(checkpoint)), open_(calls, files_), stored_(std::move(stored)) {}

void CompareSink::deliver(size_t, const Tile& tile, std::span<const std::byte> bytes) {
  for (const Piece& piece : tile.pieces) {
    const auto size = static_cast<size_t>(piece.end_bytes - piece.begin_bytes);
    compare(piece, bytes.subspan(static_cast<size_t>(piece.at_bytes), size));
  }
}

void CompareSink::compare(const Piece& piece, std::span<const std::byte> made) {
  constexpr size_t kChunkBytes = size_t{1} << 18;
  const StoredTensor& tensor = *stored_[static_cast<size_t>(piece.target)];
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
  for (size_t at = 0; at < made.size(); at += kChunkBytes) {
    const std::span theirs(chunk.get(), std::min(kChunkBytes, made.size() - at));
    const int64_t offset = piece.begin_bytes + static_cast<int64_t>(at);
    open_.get(tensor.file).read_at(theirs, tensor.offset_bytes + offset);
    const auto [mine, other] =
        std::mismatch(theirs.begin(), theirs.end(), made.begin() + static_cast<std::ptrdiff_t>(at));
    if (mine != theirs.end()) return note(piece.target, offset + (mine - theirs.begin()));
  }
}

void CompareSink::note(int32_t target, int64_t byte) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = differences_.emplace(target, byte);
  if (!is_new) found->second = std::min(found->second, byte);
}

}  // namespace weightloom
