#include "weightloom/comm/hf_stream.h"

#include <utility>
#include <vector>

#include "weightloom/comm/agreement.h"
#include "weightloom/comm/wire_internal.h"

namespace weightloom {
namespace {

/// A key as its source tells of it.
struct Announced {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

std::vector<std::byte> announcement(std::span<const HFTensorSource> tensors) {
  WireWriter writer;
  writer.put(std::ssize(tensors));
  for (const HFTensorSource& tensor : tensors) {
    writer.put(tensor.name);
    writer.put(static_cast<int64_t>(tensor.dtype));
    writer.put(int64_t{tensor.layout.rank()});
    for (const int64_t size : tensor.layout.shape()) writer.put(size);
  }
  return std::move(writer).bytes();
}

std::vector<Announced> announced_in(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  std::vector<Announced> tensors(static_cast<size_t>(reader.number()));
  for (Announced& tensor : tensors) {
    tensor.name = reader.text();
    tensor.dtype = static_cast<DType>(reader.number());
    tensor.shape.resize(static_cast<size_t>(reader.number()));
    for (int64_t& size : tensor.shape) size = reader.number();
  }
  return tensors;
}

/// A key of the bucket at hand, and the tensor that it stands in.
struct Held {
  HFTensorSource tensor;
  std::span<const std::byte> unsharded;
};

class Streaming {
 public:
  Streaming(GroupCache& groups, const GroupRanks& expert_group, std::span<const HFSaveItem> items,
            const HFStreamOptions& options, HFTensorSink& sink)
      : groups_(groups), experts_(groups.of(expert_group)), options_(options), sink_(sink) {
    run_agreed(groups_.all(), [&] {
      for (const HFSaveItem& item : items) {
        Pass& pass = item.plan.preserves_shards ? preserved_ : whole_;
        pass.parts.push_back(part_of_item(item, groups_));
        pass.tensors.push_back(hf_tensors_of(item));
      }
    });
  }

  void run() {
    for_each_bucket(preserved_, [&](std::span<const Held> held) {
      for (int64_t source = 0; source < experts_.size(); ++source) pass_on(source, held);
    });
    for_each_bucket(whole_, [&](std::span<const Held> held) {
      for (const Held& one : held) hand_over(one);
    });
    sink_.finish();
  }

 private:
  struct Pass {
    std::vector<ShardedPart> parts;
    std::vector<std::vector<HFTensorSource>> tensors;  // by part
  };

  template <typename Take>
  void for_each_bucket(const Pass& pass, const Take& take) {
    unshard_in_buckets(groups_, pass.parts, options_.bucket_bytes,
                       [&](size_t first, std::span<const UnshardedTensor> unsharded) {
                         std::vector<Held> held;
                         for (size_t i = 0; i < unsharded.size(); ++i) {
                           for (const HFTensorSource& tensor : pass.tensors[first + i]) {
                             held.push_back({tensor, unsharded[i].bytes});
                           }
                         }
                         take(held);
                       });
  }

  /// The keys of one rank of the expert group, on all of them.
  void pass_on(int64_t source, std::span<const Held> held) {
    const bool mine = source == experts_.rank();
    const std::vector<Announced> announced = announce(source, held);
    for (size_t i = 0; i < announced.size(); ++i) {
      const Announced& tensor = announced[i];
      for (const Interval& rows : slices_of(tensor.dtype, tensor.shape, options_.slice_bytes)) {
        std::vector<std::byte>& slice = slice_for(tensor.dtype, tensor.shape, rows);
        if (mine) copy_rows(held[i].tensor, rows, held[i].unsharded, slice);
        experts_.broadcast(source, slice);
        sink_.take({tensor.name, tensor.dtype, tensor.shape, rows, slice});
      }
    }
  }

  std::vector<Announced> announce(int64_t source, std::span<const Held> held) {
    std::vector<std::byte> bytes;
    if (source == experts_.rank()) {
      std::vector<HFTensorSource> tensors;
      for (const Held& one : held) tensors.push_back(one.tensor);
      bytes = announcement(tensors);
    }
    int64_t size = std::ssize(bytes);
    experts_.broadcast(source, std::as_writable_bytes(std::span(&size, 1)));
    bytes.resize(static_cast<size_t>(size));
    experts_.broadcast(source, bytes);
    return announced_in(bytes);
  }

  void hand_over(const Held& one) {
    const HFTensorSource& tensor = one.tensor;
    const Shape& shape = tensor.layout.shape();
    for (const Interval& rows : slices_of(tensor.dtype, shape, options_.slice_bytes)) {
      std::vector<std::byte>& slice = slice_for(tensor.dtype, shape, rows);
      copy_rows(tensor, rows, one.unsharded, slice);
      sink_.take({tensor.name, tensor.dtype, shape, rows, slice});
    }
  }

  std::vector<std::byte>& slice_for(DType dtype, Shape shape, const Interval& rows) {
    if (!shape.empty()) shape.front() = rows.size();
    slice_.resize(static_cast<size_t>(checked_bytes(dtype, shape).value_or(0)));
    return slice_;
  }

  GroupCache& groups_;
  ProcessGroup& experts_;
  const HFStreamOptions& options_;
  HFTensorSink& sink_;
  Pass preserved_;
  Pass whole_;
  std::vector<std::byte> slice_;
};

}  // namespace

void stream_hf_tensors(GroupCache& groups, const GroupRanks& expert_group,
                       std::span<const HFSaveItem> items, const HFStreamOptions& options,
                       HFTensorSink& sink) {
  Streaming(groups, expert_group, items, options, sink).run();
}

}  // namespace weightloom
