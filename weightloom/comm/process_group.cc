#include "weightloom/comm/process_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"

namespace weightloom {
namespace {

// Above the tags of callers.
constexpr int kGatherTag = kTags;
constexpr int kBroadcastTag = kTags + 1;

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

void check_rank(int64_t rank, const ProcessGroup& group) {
  if (rank < 0 || rank >= group.size())
    misuse("rank {} of a group of {} ranks", rank, group.size());
}

void check_tag(int tag) {
  if (tag < 0 || tag >= kTags) misuse("message tag {}, needed one in [0, {})", tag, kTags);
}

std::string message_of(int64_t rank, const Error& error) {
  if (dynamic_cast<const RankError*>(&error) != nullptr) return error.what();
  return fmt::format("rank {}: {}", rank, error.what());
}

int64_t rank_of(int64_t rank, const Error& error) {
  const auto* named = dynamic_cast<const RankError*>(&error);
  return named != nullptr ? named->rank() : rank;
}

int64_t sum_of(int64_t a, int64_t b) {
  const auto sum = checked_add(a, b);
  if (!sum) misuse("the sum over ranks, {} and {} more, is more than 64 bits count", a, b);
  return *sum;
}

int64_t reduced(Reduction reduction, int64_t a, int64_t b) {
  switch (reduction) {
    case Reduction::sum:
      return sum_of(a, b);
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
  }
  __builtin_unreachable();
}

}  // namespace

RankError::RankError(int64_t rank, const Error& error)
    : Error(error.code(), message_of(rank, error), error.next_step(), error.findings()),
      rank_(rank_of(rank, error)) {}

RankError RankError::told(int64_t rank, Error error) { return {std::move(error), rank}; }

void ProcessGroup::exchange(std::span<const Outgoing> outgoing,
                            std::span<const Incoming> incoming) {
  for (const Outgoing& message : outgoing) {
    check_rank(message.to, *this);
    check_tag(message.tag);
  }
  for (const Incoming& message : incoming) {
    check_rank(message.from, *this);
    check_tag(message.tag);
  }
  do_exchange(outgoing, incoming);
}

void ProcessGroup::send(int64_t to, int tag, std::span<const std::byte> bytes) {
  exchange(std::array{Outgoing{to, tag, bytes}}, {});
}

void ProcessGroup::recv(int64_t from, int tag, std::span<std::byte> bytes) {
  exchange({}, std::array{Incoming{from, tag, bytes}});
}

std::vector<std::vector<std::byte>> ProcessGroup::all_gather_v(std::span<const std::byte> mine) {
  const auto ranks = static_cast<size_t>(size());
  const int64_t my_size = std::ssize(mine);
  std::vector<int64_t> sizes(ranks);
  all_gather_into(std::as_bytes(std::span(&my_size, 1)),
                  std::vector<int64_t>(ranks, sizeof(int64_t)),
                  std::as_writable_bytes(std::span(sizes)));
  std::vector<std::byte> all(static_cast<size_t>(std::accumulate(
      sizes.begin(), sizes.end(), int64_t{0}, [](int64_t a, int64_t b) { return sum_of(a, b); })));
  all_gather_into(mine, sizes, all);
  std::vector<std::vector<std::byte>> result;
  auto next = all.begin();
  for (const int64_t bytes : sizes) {
    result.emplace_back(next, next + bytes);
    next += bytes;
  }
  return result;
}

void ProcessGroup::all_gather_into(std::span<const std::byte> mine,
                                   std::span<const int64_t> sizes_bytes, std::span<std::byte> all) {
  if (std::ssize(sizes_bytes) != size()) {
    misuse("{} sizes for a group of {} ranks", sizes_bytes.size(), size());
  }
  int64_t total = 0;
  for (const int64_t bytes : sizes_bytes) {
    if (bytes < 0) misuse("a rank would give {} bytes", bytes);
    total = sum_of(total, bytes);
  }
  if (std::ssize(all) != total) misuse("memory of {} bytes to gather {}", all.size(), total);
  const int64_t my_size = sizes_bytes[static_cast<size_t>(rank())];
  if (std::ssize(mine) != my_size) {
    misuse("rank {} gives {} bytes where {} were announced", rank(), mine.size(), my_size);
  }
  do_all_gather(mine, sizes_bytes, all);
}

void ProcessGroup::broadcast(int64_t root, std::span<std::byte> bytes) {
  check_rank(root, *this);
  do_broadcast(root, bytes);
}

void ProcessGroup::barrier() { all_reduce(Reduction::max, 0); }

std::vector<int64_t> ProcessGroup::all_reduce(Reduction reduction,
                                              std::span<const int64_t> values) {
  const auto ranks = static_cast<size_t>(size());
  std::vector<int64_t> all(ranks * values.size());
  all_gather_into(std::as_bytes(values),
                  std::vector<int64_t>(ranks, static_cast<int64_t>(values.size_bytes())),
                  std::as_writable_bytes(std::span(all)));
  std::vector<int64_t> result(all.begin(), all.begin() + std::ssize(values));
  for (size_t i = values.size(); i < all.size(); ++i) {
    int64_t& so_far = result[i % values.size()];
    so_far = reduced(reduction, so_far, all[i]);
  }
  return result;
}

int64_t ProcessGroup::all_reduce(Reduction reduction, int64_t value) {
  return all_reduce(reduction, std::span(&value, 1)).front();
}

std::unique_ptr<ProcessGroup> ProcessGroup::sub_group(std::span<const int64_t> ranks) {
  std::set<int64_t> distinct;
  for (const int64_t rank : ranks) {
    check_rank(rank, *this);
    if (!distinct.insert(rank).second) misuse("rank {} stands twice in a sub-group", rank);
  }
  if (!distinct.contains(rank())) misuse("rank {} is not of the sub-group that it makes", rank());
  return do_sub_group(ranks);
}

void ProcessGroup::do_all_gather(std::span<const std::byte> mine,
                                 std::span<const int64_t> sizes_bytes, std::span<std::byte> all) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  size_t at = 0;
  for (int64_t other = 0; other < size(); ++other) {
    const auto bytes = static_cast<size_t>(sizes_bytes[static_cast<size_t>(other)]);
    const std::span<std::byte> place = all.subspan(at, bytes);
    at += bytes;
    if (other != rank()) {
      if (!mine.empty()) outgoing.push_back({other, kGatherTag, mine});
      if (bytes > 0) incoming.push_back({other, kGatherTag, place});
    } else if (bytes > 0 && place.data() != mine.data()) {
      std::memcpy(place.data(), mine.data(), bytes);
    }
  }
  do_exchange(outgoing, incoming);
}

void ProcessGroup::do_broadcast(int64_t root, std::span<std::byte> bytes) {
  // Ranks counted from the root: each receives from the one without its lowest bit, and then sends
  // to those that it is this for.
  const int64_t ranks = size();
  const int64_t me = (rank() - root + ranks) % ranks;
  int64_t bit = 1;
  while (bit < ranks && (me & bit) == 0) bit <<= 1;
  if (me != 0) {
    do_exchange({}, std::array{Incoming{(me - bit + root) % ranks, kBroadcastTag, bytes}});
  }
  std::vector<Outgoing> outgoing;
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (me + bit < ranks) outgoing.push_back({(me + bit + root) % ranks, kBroadcastTag, bytes});
  }
  do_exchange(outgoing, {});
}

int64_t ProcessGroup::largest_of(std::span<const int64_t> ranks, int tag, int64_t mine) {
  std::vector<int64_t> theirs(ranks.size());
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (size_t i = 0; i < ranks.size(); ++i) {
    outgoing.push_back({ranks[i], tag, std::as_bytes(std::span(&mine, 1))});
    incoming.push_back({ranks[i], tag, std::as_writable_bytes(std::span(&theirs[i], 1))});
  }
  do_exchange(outgoing, incoming);
  return std::ranges::max(theirs);
}

void run_guarded(ProcessGroup& group, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    group.abort(error);
    throw RankError(group.world_rank(), error);
  } catch (const std::exception& error) {
    group.abort(Error(ErrorCode::io, error.what()));
    throw;
  } catch (...) {
    group.abort(Error(ErrorCode::io, "an exception of unknown type"));
    throw;
  }
}

}  // namespace weightloom
