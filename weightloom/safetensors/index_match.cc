#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/base/workers.h"
#include "weightloom/safetensors/index_match_internal.h"

namespace weightloom {
namespace {

/// Gives each distinct shard a number, in order of first appearance.
struct ShardNumbers {
  std::vector<std::string> shards;
  std::vector<int32_t> shard_of;
};

ShardNumbers number_shards(std::vector<std::pair<std::string, std::string>>& map) {
  ShardNumbers numbers;
  NameTable lookup(map.size());
  auto shard_at = [&](int32_t i) -> std::string_view {
    return numbers.shards[static_cast<size_t>(i)];
  };
  for (auto& [name, shard] : map) {
    bool as_before = !numbers.shard_of.empty() && shard_at(numbers.shard_of.back()) == shard;
    if (as_before) {
      numbers.shard_of.push_back(numbers.shard_of.back());
      continue;
    }
    auto next = static_cast<int32_t>(numbers.shards.size());
    auto known = lookup.insert(shard, next, shard_at);
    if (!known) numbers.shards.push_back(std::move(shard));
    numbers.shard_of.push_back(known.value_or(next));
  }
  return numbers;
}

/// Sorts the shards by name and renumbers.
void sort_shards(ShardNumbers& numbers) {
  std::vector<int32_t> order(numbers.shards.size());
  std::iota(order.begin(), order.end(), 0);
  auto name_of = [&](int32_t i) -> std::string& { return numbers.shards[static_cast<size_t>(i)]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return name_of(a) < name_of(b); });
  std::vector<int32_t> new_number(order.size());
  std::vector<std::string> sorted;
  for (int32_t old : order) {
    new_number[static_cast<size_t>(old)] = static_cast<int32_t>(sorted.size());
    sorted.push_back(std::move(name_of(old)));
  }
  numbers.shards = std::move(sorted);
  for (int32_t& number : numbers.shard_of) number = new_number[static_cast<size_t>(number)];
}

/// The entries' places, sorted by name. Sorts views, since entries are large.
std::vector<size_t> in_name_order(const std::vector<std::pair<std::string, std::string>>& map) {
  std::vector<std::pair<std::string_view, size_t>> names;
  names.reserve(map.size());
  for (const auto& entry : map) names.emplace_back(entry.first, names.size());
  if (!std::is_sorted(names.begin(), names.end())) std::sort(names.begin(), names.end());
  std::vector<size_t> order;
  order.reserve(names.size());
  for (const auto& [name, place] : names) order.push_back(place);
  return order;
}

/// What one shard's header says of the index.
struct ShardMatch {
  std::vector<int32_t> strays;  // entries whose tensor this shard holds, though they name another
  std::vector<std::string> unindexed;
};

ShardMatch match_shard(const IndexEntries& entries, const Header& header, int32_t shard,
                       std::vector<StoredTensor>& tensors, std::vector<uint8_t>& is_found) {
  ShardMatch match;
  for (const auto& tensor : header.tensors()) {
    auto entry = entries.find(tensor.name);
    if (!entry) {
      match.unindexed.push_back(tensor.name);
      continue;
    }
    auto at = static_cast<size_t>(*entry);
    if (entries.shard_of[at] != shard) {
      match.strays.push_back(*entry);
      continue;
    }
    is_found[at] = 1;
    StoredTensor& stored = tensors[at];
    stored.dtype = tensor.dtype;
    stored.shape = tensor.shape;
    stored.file = shard;
    stored.offset_bytes = header.data_begin_bytes() + tensor.begin_bytes;
    stored.size_bytes = tensor.end_bytes - tensor.begin_bytes;
  }
  return match;
}

/// Turns what the shards said into findings.
class Reporter {
 public:
  Reporter(const IndexEntries& entries, const std::vector<uint8_t>& is_found, IndexMatch& match)
      : entries_(entries), is_found_(is_found), match_(match), is_elsewhere_(is_found.size()) {}

  void report_shard(int32_t shard, const ShardMatch& found) {
    for (const auto& name : found.unindexed) {
      report(shard, name, "the index does not list it, so it is not loaded");
    }
    for (int32_t entry : found.strays) {
      const auto& name = entries_.names[static_cast<size_t>(entry)];
      if (is_found_[static_cast<size_t>(entry)] != 0) {
        report(shard, name,
               fmt::format("a second copy, not loaded; the index places the tensor in {}",
                           shard_of(entry)));
      } else {
        is_elsewhere_[static_cast<size_t>(entry)] = 1;
        fault("wrong_shard", entry,
              fmt::format("tensor {}: the index places it in {}, but it stands in {}", quote(name),
                          shard_of(entry), shard_name(shard)));
      }
    }
  }

  void report_absent(int32_t entry) {
    auto at = static_cast<size_t>(entry);
    if (is_found_[at] != 0 || is_elsewhere_[at] != 0) return;
    fault("index_entry_without_tensor", entry,
          fmt::format("{}: the index places tensor {} there, but the header has no such tensor",
                      shard_of(entry), quote(entries_.names[at])));
  }

 private:
  const std::string& shard_name(int32_t shard) const {
    return entries_.shards[static_cast<size_t>(shard)];
  }
  const std::string& shard_of(int32_t entry) const {
    return shard_name(entries_.shard_of[static_cast<size_t>(entry)]);
  }
  void report(int32_t shard, const std::string& name, std::string_view fact) {
    match_.reports.push_back(
        {Severity::report, "unindexed_tensor", name, shard_name(shard),
         fmt::format("{}: tensor {}: {}", shard_name(shard), quote(name), fact)});
  }
  void fault(std::string code, int32_t entry, std::string message) {
    match_.faults.push_back({Severity::error, std::move(code),
                             entries_.names[static_cast<size_t>(entry)], shard_of(entry),
                             std::move(message)});
  }

  const IndexEntries& entries_;
  const std::vector<uint8_t>& is_found_;
  IndexMatch& match_;
  std::vector<uint8_t> is_elsewhere_;
};

}  // namespace

IndexEntries::IndexEntries(Index index) : lookup(index.weight_map.size()) {
  auto& map = index.weight_map;
  auto numbers = number_shards(map);
  sort_shards(numbers);
  shards = std::move(numbers.shards);
  names.reserve(map.size());
  shard_of.reserve(map.size());
  for (size_t entry : in_name_order(map)) {
    names.push_back(std::move(map[entry].first));
    shard_of.push_back(numbers.shard_of[entry]);
  }
  auto name_at = [&](int32_t i) -> std::string_view { return names[static_cast<size_t>(i)]; };
  for (size_t i = 0; i < names.size(); ++i) {
    lookup.insert(names[i], static_cast<int32_t>(i), name_at);
  }
}

IndexMatch match_index(const IndexEntries& entries, const std::vector<const CheckpointFile*>& files,
                       int threads) {
  IndexMatch match;
  match.tensors.resize(entries.names.size());
  std::vector<uint8_t> is_found(entries.names.size());
  std::vector<ShardMatch> shards(files.size());
  // Each entry belongs to one shard, so that threads never write the same place.
  for_each_item(threads, 0, files.size(), {}, [&](size_t, size_t i) {
    if (files[i] == nullptr) return;
    shards[i] =
        match_shard(entries, files[i]->header, static_cast<int32_t>(i), match.tensors, is_found);
  });
  Reporter reporter(entries, is_found, match);
  for (size_t i = 0; i < files.size(); ++i) {
    reporter.report_shard(static_cast<int32_t>(i), shards[i]);
  }
  for (size_t i = 0; i < entries.names.size(); ++i) {
    bool is_readable = files[static_cast<size_t>(entries.shard_of[i])] != nullptr;
    if (is_readable) reporter.report_absent(static_cast<int32_t>(i));
  }
  return match;
}

}  // namespace weightloom
