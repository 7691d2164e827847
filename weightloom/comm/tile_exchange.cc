#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "weightloom/base/error.h"
#include "weightloom/base/workers.h"
#include "weightloom/comm/tile_exchange_internal.h"
#include "weightloom/execute/kernels_internal.h"

namespace weightloom {
namespace {

constexpr int kTag = 0;
// Buffers of tiles lie in their pages as in the file, so that they are written past the page cache.
constexpr std::align_val_t kPage{4096};

struct FreePages {
  void operator()(std::byte* data) const noexcept { ::operator delete[](data, kPage); }
};

/// Memory for one tile.
class TileMemory {
 public:
  explicit TileMemory(const Tile& tile)
      : phase_(static_cast<size_t>(tile.parts.front().begin_bytes) % static_cast<size_t>(kPage)),
        size_(static_cast<size_t>(tile.size_bytes)),
        data_(static_cast<std::byte*>(::operator new[](phase_ + size_, kPage))) {}

  std::span<std::byte> bytes() const { return {data_.get() + phase_, size_}; }

 private:
  size_t phase_;
  size_t size_;
  std::unique_ptr<std::byte[], FreePages> data_;
};

/// The region with its target side packed: in order, without gaps, from `at` on.
Region packed(const TileRegion& part, int64_t at) {
  Region result = part.region;
  int64_t stride = part.type.target_bytes();
  for (size_t i = result.axes.size(); i-- > 0;) {
    result.axes[i].target_stride = stride;
    stride *= result.axes[i].extent;
  }
  result.target_offset = at;
  return normalized(std::move(result));
}

/// The way back: from the packed bytes into the tile.
Region unpacked(const TileRegion& part, int64_t at) {
  Region result = part.region;
  int64_t stride = part.type.target_bytes();
  for (size_t i = result.axes.size(); i-- > 0;) {
    result.axes[i].source_stride = stride;
    stride *= result.axes[i].extent;
  }
  result.source_offset = at;
  if (part.type.casts()) result.axes.push_back({part.type.target_bytes(), 1, 1});
  return normalized(std::move(result));
}

/// Copies or casts a region out of a source; how many values are infinite that were not.
int64_t move(const TileRegion& part, const Region& region, std::span<const std::byte> source,
             std::byte* target) {
  if (part.type.casts()) {
    return cast_region(region, part.type.from, part.type.to, source.data(), target);
  }
  copy_region(region, source.data(), target);
  return 0;
}

/// One batch of an exchange, as a rank has it.
class Batch {
 public:
  Batch(const ExchangeSide& side, std::span<const SharedTile> tiles) : side_(side), tiles_(tiles) {
    for (const SharedTile& tile : tiles_) {
      begins_.emplace_back();
      for (const Portion& portion : tile.portions) note(tile, portion);
    }
    for (auto& [rank, message] : outgoing_) message.bytes.resize(message.size);
    for (auto& [rank, message] : incoming_) message.bytes.resize(message.size);
  }

  /// Fills the messages to others.
  void pack() {
    for_each_tile([&](size_t i) {
      const auto begin = begins_[i].find(side_.rank);
      if (tiles_[i].writer != side_.rank && begin != begins_[i].end())
        pack(tiles_[i], begin->second);
    });
  }

  void exchange(ProcessGroup& group) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const auto& [rank, message] : outgoing_) outgoing.push_back({rank, kTag, message.bytes});
    for (auto& [rank, message] : incoming_) incoming.push_back({rank, kTag, message.bytes});
    group.exchange(outgoing, incoming);
  }

  /// Puts this rank's tiles together.
  void deliver(TileSink& sink) {
    for_each_tile([&](size_t i) {
      if (tiles_[i].writer != side_.rank) return;
      const TileMemory memory(tiles_[i].tile);
      make(i, memory.bytes());
      sink.deliver(i, tiles_[i].tile, memory.bytes());
    });
  }

  int64_t bytes_sent() const {
    int64_t bytes = 0;
    for (const auto& [rank, message] : outgoing_) bytes += std::ssize(message.bytes);
    return bytes;
  }
  /// Messages, and a tile a thread.
  int64_t working_bytes() const {
    int64_t bytes = bytes_sent();
    for (const auto& [rank, message] : incoming_) bytes += std::ssize(message.bytes);
    int64_t largest_tile = 0;
    for (const SharedTile& tile : tiles_) {
      if (tile.writer == side_.rank) largest_tile = std::max(largest_tile, tile.tile.size_bytes);
    }
    return bytes + largest_tile * side_.run.threads;
  }
  const std::map<int32_t, int64_t>& not_finite() const noexcept { return not_finite_; }

 private:
  struct Message {
    size_t size = 0;
    std::vector<std::byte> bytes;
  };

  /// Where a portion stands in the message that it goes in.
  void note(const SharedTile& tile, const Portion& portion) {
    const bool is_mine = portion.from == side_.rank;
    if (!is_mine && tile.writer != side_.rank) return;
    Message& message = is_mine ? outgoing_[tile.writer] : incoming_[portion.from];
    begins_.back()[portion.from] = static_cast<int64_t>(message.size);
    message.size += static_cast<size_t>(portion.bytes);
  }

  void for_each_tile(const std::function<void(size_t)>& work) {
    for_each_item(side_.run.threads, 0, tiles_.size(), side_.run.stop,
                  [&](size_t, size_t i) { work(i); });
  }

  void pack(const SharedTile& tile, int64_t at) {
    std::vector<std::byte>& message = outgoing_.at(tile.writer).bytes;
    for (const TileRegion& part : regions_of(side_.program, tile.tile)) {
      if (part.region.is_pad()) continue;
      if (giver_of(part.region, side_.holders, tile.writer) != side_.rank) continue;
      count(part, move(part, packed(part, at), source_of(part), message.data()));
      at += part.bytes();
    }
  }

  void make(size_t i, std::span<std::byte> memory) {
    std::map<int64_t, int64_t> at = begins_[i];
    for (const TileRegion& part : regions_of(side_.program, tiles_[i].tile)) {
      if (part.region.is_pad()) {
        fill_region(part.region, memory.data());
        continue;
      }
      const int64_t giver = giver_of(part.region, side_.holders, side_.rank);
      if (giver == side_.rank) {
        count(part, move(part, part.region, source_of(part), memory.data()));
        continue;
      }
      copy_region(unpacked(part, at.at(giver)), incoming_.at(giver).bytes.data(), memory.data());
      at.at(giver) += part.bytes();
    }
  }

  std::span<const std::byte> source_of(const TileRegion& part) const {
    return side_.sources[static_cast<size_t>(part.region.source)];
  }

  void count(const TileRegion& part, int64_t lost) {
    if (lost == 0) return;
    const std::lock_guard lock(mutex_);
    not_finite_[part.target] += lost;
  }

  const ExchangeSide& side_;
  std::span<const SharedTile> tiles_;
  std::vector<std::map<int64_t, int64_t>> begins_;  // by tile: giver → place in the message
  std::map<int64_t, Message> outgoing_;             // by receiver
  std::map<int64_t, Message> incoming_;             // by sender
  std::mutex mutex_;
  std::map<int32_t, int64_t> not_finite_;
};

/// Keeps the first thing that goes wrong.
class FirstFailure {
 public:
  void guard(const std::function<void()>& work) {
    if (failure_) return;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace

void TileExchange::run(ProcessGroup& group, std::span<const SharedTile> tiles, int64_t batch_bytes,
                       TileSink& sink) {
  FirstFailure failure;
  for (const auto& [begin, end] : batches_of(tiles, group.size(), batch_bytes)) {
    Batch batch(side_, tiles.subspan(begin, end - begin));
    failure.guard([&] { batch.pack(); });
    batch.exchange(group);
    failure.guard([&] { batch.deliver(sink); });
    bytes_sent_ += batch.bytes_sent();
    peak_bytes_ = std::max(peak_bytes_, batch.working_bytes());
    for (const auto& [target, count] : batch.not_finite()) not_finite_[target] += count;
  }
  failure.rethrow();
}

}  // namespace weightloom
