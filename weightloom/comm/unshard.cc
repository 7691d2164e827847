#include "weightloom/comm/unshard.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/hash.h"
#include "weightloom/comm/agreement.h"
#include "weightloom/execute/kernels_internal.h"
#include "weightloom/layout/operations.h"
#include "weightloom/plan/lower_internal.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom {
namespace {

size_t as_size(int64_t n) { return static_cast<size_t>(n); }

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

int64_t bytes_of(const std::string& name, DType dtype, const Shape& shape) {
  const auto bytes = checked_bytes(dtype, shape);
  if (!bytes) {
    misuse("tensor '{}': {} {} is more than 64 bits count, or no whole bytes", name,
           to_string(dtype), to_string(shape));
  }
  return *bytes;
}

/// A step as a sharding over a mesh of its group alone.
struct StepSharding {
  explicit StepSharding(const GatherStep& step)
      : meshes(Mesh::make({{"group", std::ssize(step.ranks)}})),
        sharding{.steps = {CutStep{.axis = "group", .dim = step.dim, .cut = step.cut}}} {}

  Shape shape_at(const GatherStep& step, size_t place) const {
    return local_shape(*local_part(sharding, meshes, step.shape, static_cast<int64_t>(place)));
  }

  MeshSet meshes;
  Sharding sharding;
};

size_t place_in(const GroupRanks& ranks, int64_t rank, const ShardedPart& part) {
  const auto place = std::ranges::find(ranks, rank);
  if (place == ranks.end()) {
    misuse("tensor '{}': rank {} gathers a part from ranks {}, and is none of them", part.name,
           rank, fmt::join(ranks, ", "));
  }
  return static_cast<size_t>(place - ranks.begin());
}

void check_steps(const ShardedPart& part, int64_t rank) {
  Shape shape = part.shape;
  for (const GatherStep& step : part.steps) {
    const size_t place = place_in(step.ranks, rank, part);
    const Shape needed = StepSharding(step).shape_at(step, place);
    if (shape != needed) {
      misuse("tensor '{}': its part has shape {}, but part {} of {} of {} needs {}", part.name,
             to_string(shape), place, step.ranks.size(), to_string(step.shape), to_string(needed));
    }
    shape = step.shape;
  }
  const auto reaches = [](const Segments& kept, int64_t rows) {
    return std::ranges::all_of(kept, [&](const Segment& segment) {
      return !segment.is_pad && segment.begin + segment.size <= rows;
    });
  };
  if (part.kept.empty() ||
      (part.kept.size() == shape.size() && std::ranges::equal(part.kept, shape, reaches))) {
    return;
  }
  misuse("tensor '{}': what is to be kept lies beyond {}", part.name, to_string(shape));
}

/// What the last step gives.
const Shape& gathered_shape(const ShardedPart& part) {
  return part.steps.empty() ? part.shape : part.steps.back().shape;
}

void check_part(const ShardedPart& part, int64_t rank) {
  const int64_t needed = bytes_of(part.name, part.dtype, part.shape);
  if (std::ssize(part.bytes) != needed) {
    misuse("tensor '{}': {} bytes, but {} {} needs {}", part.name, part.bytes.size(),
           to_string(part.dtype), to_string(part.shape), needed);
  }
  check_steps(part, rank);
}

/// What all ranks give alike: not groups and shapes, which are each rank's own.
uint64_t digest_of(std::span<const ShardedPart> parts) {
  uint64_t state = fnv1a64(fmt::to_string(parts.size()));
  for (const ShardedPart& part : parts) {
    state = fnv1a64(fmt::format("{}\n{}", part.name, to_string(part.dtype)), state);
    for (const GatherStep& step : part.steps) {
      state = fnv1a64(
          fmt::format(" {} {} {} {} {} {} {}", step.ranks.size(), step.dim,
                      to_string(step.cut.rule), step.cut.stripes, fmt::join(step.cut.groups, ","),
                      fmt::join(step.cut.units, ","), step.cut.granularity),
          state);
    }
  }
  return state;
}

void agree_on(GroupCache& groups, std::span<const ShardedPart> parts) {
  run_agreed(groups.all(), [&] {
    for (const ShardedPart& part : parts) check_part(part, groups.all().rank());
  });
  require_equal(groups.all(), digest_of(parts), "the list of tensors to unshard");
}

/// A tensor on its way.
struct InProgress {
  const ShardedPart* part;
  UnshardedTensor held;
};

/// Where the parts of a collective's tensors stand in the memory that is gathered into: one rank's
/// after another's, each with its parts of all tensors back to back.
class GatherPlaces {
 public:
  GatherPlaces(const SharedGather& gather, size_t round, std::span<const InProgress> tensors)
      : sizes_(gather.group.size(), 0), offsets_(gather.items.size()) {
    for (size_t rank = 0; rank < sizes_.size(); ++rank) {
      bases_.push_back(total_);
      for (size_t i = 0; i < gather.items.size(); ++i) {
        const ShardedPart& part = *tensors[gather.items[i]].part;
        const GatherStep& step = part.steps[round];
        const Shape shape = StepSharding(step).shape_at(step, rank);
        offsets_[i].push_back(total_);
        total_ += bytes_of(part.name, part.dtype, shape);
      }
      sizes_[rank] = total_ - bases_[rank];
    }
  }

  /// By rank of the group.
  std::span<const int64_t> sizes() const noexcept { return sizes_; }
  int64_t base(size_t rank) const { return bases_[rank]; }
  int64_t total() const noexcept { return total_; }
  /// By rank of the group: where the part of item `i` begins.
  std::span<const int64_t> offsets(size_t i) const { return offsets_[i]; }

 private:
  std::vector<int64_t> sizes_;
  std::vector<int64_t> bases_;
  std::vector<std::vector<int64_t>> offsets_;  // by item, by rank
  int64_t total_ = 0;
};

/// The layout of the whole over the parts, in bytes; sources are places in the group.
std::vector<Region> merging(const ShardedPart& part, const GatherStep& step) {
  const StepSharding cut(step);
  std::vector<SourceId> sources(step.ranks.size());
  std::iota(sources.begin(), sources.end(), 0);
  Lowered lowered =
      lower_to_bytes(merged(cut.sharding, cut.meshes, step.shape, sources), part.dtype);
  if (lowered.refusal) {
    throw Error(ErrorCode::unsupported,
                fmt::format("tensor '{}': {}", part.name, *lowered.refusal));
  }
  return std::move(lowered.regions);
}

/// True if the parts stand one after another as the whole has them.
bool is_in_place(std::span<const Region> regions, std::span<const int64_t> offsets) {
  return std::ranges::all_of(regions, [&](const Region& region) {
    const bool is_run =
        region.axes.empty() || (region.axes.size() == 1 && region.axes[0].target_stride == 1 &&
                                region.axes[0].source_stride == 1);
    return is_run && region.target_offset ==
                         offsets[static_cast<size_t>(region.source)] + region.source_offset;
  });
}

UnshardedTensor owning(TensorMemory memory) {
  const std::span<const std::byte> bytes = memory.bytes();
  return {std::move(memory), bytes};
}

/// Runs the collectives of one list of tensors.
class Unsharding {
 public:
  Unsharding(GroupCache& groups, std::span<const ShardedPart> parts) : groups_(groups) {
    for (const ShardedPart& part : parts) tensors_.push_back({&part, {{}, part.bytes}});
  }

  std::vector<UnshardedTensor> run() && {
    const auto rounds = gather_rounds(pending());
    for (size_t round = 0; round < rounds.size(); ++round) {
      for (const SharedGather& shared : rounds[round]) gather(shared, round);
    }
    std::vector<UnshardedTensor> results;
    for (InProgress& tensor : tensors_) results.push_back(trimmed(std::move(tensor)));
    return results;
  }

 private:
  std::vector<PendingGathers> pending() const {
    std::vector<PendingGathers> result;
    for (const InProgress& tensor : tensors_) {
      result.push_back({tensor.part->dtype, {}});
      for (const GatherStep& step : tensor.part->steps) result.back().groups.push_back(step.ranks);
    }
    return result;
  }

  void gather(const SharedGather& shared, size_t round) {
    const GatherPlaces places(shared, round, tensors_);
    TensorMemory all = gathered(shared, places);
    for (size_t i = 0; i < shared.items.size(); ++i) {
      InProgress& tensor = tensors_[shared.items[i]];
      const GatherStep& step = tensor.part->steps[round];
      const std::vector<Region> regions = merging(*tensor.part, step);
      if (shared.items.size() == 1 && is_in_place(regions, places.offsets(i))) {
        tensor.held = owning(std::move(all));
        return;
      }
      TensorMemory whole(bytes_of(tensor.part->name, tensor.part->dtype, step.shape));
      for (const Region& region : regions) {
        const int64_t offset = places.offsets(i)[static_cast<size_t>(region.source)];
        copy_region(region, all.bytes().data() + offset, whole.bytes().data());
      }
      tensor.held = owning(std::move(whole));
    }
  }

  /// The parts of all ranks of the group; this rank's are put in their place there first.
  TensorMemory gathered(const SharedGather& shared, const GatherPlaces& places) {
    ProcessGroup& group = groups_.of(shared.group);
    TensorMemory all(places.total());
    const auto me = as_size(group.rank());
    for (size_t i = 0; i < shared.items.size(); ++i) {
      const std::span<const std::byte> bytes = tensors_[shared.items[i]].held.bytes;
      if (bytes.empty()) continue;
      std::memcpy(all.bytes().data() + places.offsets(i)[me], bytes.data(), bytes.size());
    }
    group.all_gather_into(
        all.bytes().subspan(as_size(places.base(me)), as_size(places.sizes()[me])), places.sizes(),
        all.bytes());
    return all;
  }

  static UnshardedTensor trimmed(InProgress tensor) {
    const ShardedPart& part = *tensor.part;
    const Shape& shape = gathered_shape(part);
    if (part.kept.empty() || local_shape(part.kept) == shape) return std::move(tensor.held);
    Layout layout = select(identity(0, shape), part.kept);
    const Lowered lowered = lower_to_bytes(std::move(layout), part.dtype);
    if (lowered.refusal) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("tensor '{}': {}", part.name, *lowered.refusal));
    }
    TensorMemory memory(gathered_bytes(part));
    for (const Region& region : lowered.regions) {
      copy_region(region, tensor.held.bytes.data(), memory.bytes().data());
    }
    return owning(std::move(memory));
  }

  GroupCache& groups_;
  std::vector<InProgress> tensors_;
};

}  // namespace

ProcessGroup& GroupCache::of(const GroupRanks& ranks) {
  std::unique_ptr<ProcessGroup>& group = groups_[ranks];
  if (!group) group = all_.sub_group(ranks);
  return *group;
}

GroupRanks GroupCache::ranks_of(const ShardGroup& group) const {
  if (const auto* ranks = std::get_if<GroupRanks>(&group)) return *ranks;
  const auto found = names_.find(std::get<std::string>(group));
  if (found == names_.end()) misuse("no group is called {}", group_text(group));
  return found->second;
}

std::vector<UnshardedTensor> unshard_tensors(GroupCache& groups,
                                             std::span<const ShardedPart> parts) {
  agree_on(groups, parts);
  return Unsharding(groups, parts).run();
}

int64_t gathered_bytes(const ShardedPart& part) {
  return bytes_of(part.name, part.dtype,
                  part.kept.empty() ? gathered_shape(part) : local_shape(part.kept));
}

void unshard_in_buckets(GroupCache& groups, std::span<const ShardedPart> parts,
                        int64_t bucket_bytes,
                        const std::function<void(size_t, std::span<const UnshardedTensor>)>& take) {
  agree_on(groups, parts);
  std::vector<int64_t> sizes;
  for (const ShardedPart& part : parts) sizes.push_back(gathered_bytes(part));
  // Where shards are kept, ranks have results of different sizes, and all need the same buckets.
  const std::vector<int64_t> largest = groups.all().all_reduce(Reduction::max, sizes);
  for (const auto& [begin, end] : buckets_of(largest, bucket_bytes)) {
    take(begin, Unsharding(groups, parts.subspan(begin, end - begin)).run());
  }
}

}  // namespace weightloom
