#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "weightloom/base/error.h"
#include "weightloom/base/workers.h"
#include "weightloom/comm/tile_exchange_internal.h"
#include "weightloom/execute/kernels_internal.h"

namespace weightloom {
namespace {

constexpr int kTag = 0;
// More does not make a batch faster: messages that fit the processor's cache are moved there, and
// the next batch finds their memory mapped.
constexpr int64_t kBatchBytes = int64_t{16} << 20;

/// Memory for a tile, which lies in its pages as in those of the file.
std::span<std::byte> memory_for(const Tile& tile, WorkBuffer& buffer) {
  const size_t phase = WorkBuffer::phase_of(tile.parts.front().begin_bytes);
  return buffer.take(phase + static_cast<size_t>(tile.size_bytes)).subspan(phase);
}

/// Strides of one side of the axes: in order, without gaps.
void pack_axes(AxisList& axes, int64_t Axis::* side, int64_t element_bytes) {
  int64_t stride = element_bytes;
  for (size_t i = axes.size(); i-- > 0;) {
    axes[i].*side = stride;
    stride *= axes[i].extent;
  }
}

/// The region with its target side packed from `at` on.
Region packed(const TileRegion& part, int64_t at) {
  Region result = part.region;
  pack_axes(result.axes, &Axis::target_stride, part.type.target_bytes());
  result.target_offset = at;
  return normalized(std::move(result));
}

/// The way back: from the packed bytes into the tile.
Region unpacked(const TileRegion& part, int64_t at) {
  Region result = part.region;
  pack_axes(result.axes, &Axis::source_stride, part.type.target_bytes());
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
  }

  /// Of all messages, to others and from them.
  int64_t message_bytes() const { return bytes_of(outgoing_) + bytes_of(incoming_); }
  int64_t bytes_sent() const { return bytes_of(outgoing_); }

  /// Gives the messages their memory, which is borrowed.
  void place(std::span<std::byte> memory) {
    for (std::map<int64_t, Message>* messages : {&outgoing_, &incoming_}) {
      for (auto& [rank, message] : *messages) {
        message.bytes = memory.first(message.size);
        memory = memory.subspan(message.size);
      }
    }
  }

  /// Fills the messages to others.
  void pack() {
    for_each_tile([&](size_t, size_t i) {
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

  /// Puts this rank's tiles together; a buffer a thread.
  void deliver(std::span<WorkBuffer> buffers, TileSink& sink) {
    for_each_tile([&](size_t worker, size_t i) {
      if (tiles_[i].writer != side_.rank) return;
      const std::span<std::byte> memory = memory_for(tiles_[i].tile, buffers[worker]);
      make(i, memory);
      sink.deliver(i, tiles_[i].tile, memory);
    });
  }

  const std::map<int32_t, int64_t>& not_finite() const noexcept { return not_finite_; }

 private:
  struct Message {
    size_t size = 0;
    std::span<std::byte> bytes;
  };

  static int64_t bytes_of(const std::map<int64_t, Message>& messages) {
    int64_t bytes = 0;
    for (const auto& [rank, message] : messages) bytes += static_cast<int64_t>(message.size);
    return bytes;
  }

  /// Where a portion stands in the message that it goes in.
  void note(const SharedTile& tile, const Portion& portion) {
    const bool is_mine = portion.from == side_.rank;
    if (!is_mine && tile.writer != side_.rank) return;
    Message& message = is_mine ? outgoing_[tile.writer] : incoming_[portion.from];
    begins_.back()[portion.from] = static_cast<int64_t>(message.size);
    message.size += static_cast<size_t>(portion.bytes);
  }

  void for_each_tile(const std::function<void(size_t worker, size_t tile)>& work) {
    for_each_item(side_.run.threads, 0, tiles_.size(), side_.run.stop, work);
  }

  void pack(const SharedTile& tile, int64_t at) {
    const std::span<std::byte> message = outgoing_.at(tile.writer).bytes;
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
  /// Does what is left to do unless something went wrong.
  void guard(const std::function<void()>& work) {
    if (!failure_) keep(work);
  }
  /// Does what is to be done whatever went wrong.
  void keep(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

/// The batch that is being written, on a thread of its own: it waits for the disk, and the rank's
/// own thread for other ranks.
class Delivery {
 public:
  /// Begins; until finish() has returned, the batch's memory and the buffers are in use.
  void start(std::unique_ptr<Batch> next, std::span<WorkBuffer> buffers, TileSink& sink) {
    batch_ = std::move(next);
    done_ = std::async(std::launch::async | std::launch::deferred,
                       [batch = batch_.get(), buffers, &sink] { batch->deliver(buffers, sink); });
  }
  /// Returns when it is written, with the values that casts made infinite.
  /// Errors: what making and delivering throws.
  std::map<int32_t, int64_t> finish() {
    if (!batch_) return {};
    const std::unique_ptr<Batch> batch = std::exchange(batch_, nullptr);
    done_.get();
    return batch->not_finite();
  }

 private:
  std::unique_ptr<Batch> batch_;
  std::future<void> done_;  // the last: waits when it is destroyed
};

}  // namespace

TileExchange::TileExchange(const ExchangeSide& side)
    : side_(side), tiles_(static_cast<size_t>(std::max(side.run.threads, 1))) {}

void TileExchange::note_peak() {
  int64_t bytes = messages_[0].size_bytes() + messages_[1].size_bytes();
  for (const WorkBuffer& tile : tiles_) bytes += tile.size_bytes();
  peak_bytes_ = std::max(peak_bytes_, bytes);
}

/// One call of run(): while a batch is written, the next one is on its way.
class TileExchange::Run {
 public:
  Run(TileExchange& exchange, ProcessGroup& group, int64_t batch_bytes, TileSink& sink)
      : exchange_(exchange), group_(group), batch_bytes_(batch_bytes), sink_(sink) {}

  void take(std::span<const SharedTile> tiles) {
    auto batch = std::make_unique<Batch>(exchange_.side_, tiles);
    batch->place(memory_for(batch->message_bytes()));
    failure_.guard([&] { batch->pack(); });
    batch->exchange(group_);
    exchange_.bytes_sent_ += batch->bytes_sent();
    finish_delivery();
    failure_.guard([&] { delivery_.start(std::move(batch), exchange_.tiles_, sink_); });
  }

  void end() {
    finish_delivery();
    failure_.rethrow();
  }

 private:
  /// Of the two buffers the one that the batch before does not use; the other is given up where
  /// both would be too much.
  std::span<std::byte> memory_for(int64_t bytes) {
    WorkBuffer& before = exchange_.messages_[1 - next_];
    if (before.size_bytes() + bytes > batch_bytes_) {
      finish_delivery();
      before = {};
    }
    WorkBuffer& memory = exchange_.messages_[std::exchange(next_, 1 - next_)];
    return memory.take(static_cast<size_t>(bytes));
  }

  void finish_delivery() {
    failure_.keep([&] {
      for (const auto& [target, count] : delivery_.finish()) {
        exchange_.not_finite_[target] += count;
      }
    });
    exchange_.note_peak();
  }

  TileExchange& exchange_;
  ProcessGroup& group_;
  int64_t batch_bytes_;
  TileSink& sink_;
  size_t next_ = 0;
  FirstFailure failure_;
  Delivery delivery_;
};

void TileExchange::run(ProcessGroup& group, std::span<const SharedTile> tiles, int64_t batch_bytes,
                       TileSink& sink) {
  Run run(*this, group, batch_bytes, sink);
  const int64_t most_bytes = std::min(batch_bytes / 2, kBatchBytes);
  for (const auto& [begin, end] : batches_of(tiles, group.size(), most_bytes)) {
    run.take(tiles.subspan(begin, end - begin));
  }
  run.end();
}

}  // namespace weightloom
