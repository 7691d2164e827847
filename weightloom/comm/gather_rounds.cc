#include "weightloom/comm/gather_rounds.h"

#include <algorithm>
#include <utility>

namespace weightloom {
namespace {

/// The gathers of a round: step `round` of every tensor that has one.
std::vector<SharedGather> gathers_of(std::span<const PendingGathers> tensors, size_t round) {
  std::vector<SharedGather> gathers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (round >= tensors[i].groups.size()) continue;
    const GroupRanks& group = tensors[i].groups[round];
    auto shared = std::ranges::find_if(gathers, [&](const SharedGather& gather) {
      return gather.dtype == tensors[i].dtype && gather.group == group;
    });
    if (shared == gathers.end()) {
      shared = gathers.insert(shared, SharedGather{group, tensors[i].dtype, {}});
    }
    shared->items.push_back(i);
  }
  return gathers;
}

}  // namespace

std::vector<std::vector<SharedGather>> gather_rounds(std::span<const PendingGathers> tensors) {
  std::vector<std::vector<SharedGather>> rounds;
  for (auto gathers = gathers_of(tensors, 0); !gathers.empty();
       gathers = gathers_of(tensors, rounds.size())) {
    rounds.push_back(std::move(gathers));
  }
  return rounds;
}

std::vector<std::pair<size_t, size_t>> buckets_of(std::span<const int64_t> item_bytes,
                                                  int64_t bucket_bytes) {
  std::vector<std::pair<size_t, size_t>> buckets;
  int64_t held = 0;
  for (size_t i = 0; i < item_bytes.size(); ++i) {
    if (buckets.empty() || item_bytes[i] > bucket_bytes - held) {
      buckets.emplace_back(i, i);
      held = 0;
    }
    buckets.back().second = i + 1;
    held += item_bytes[i];
  }
  return buckets;
}

}  // namespace weightloom
