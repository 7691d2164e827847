// An index against the headers of its shards, both ways. Private to this room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom {

/// An index prepared for lookups: entries sorted by name, shards by number.
struct IndexEntries {
  std::vector<std::string> shards;  // sorted, each once
  std::vector<std::string> names;   // sorted bytewise
  std::vector<int32_t> shard_of;    // names[i] lies in shards[shard_of[i]]
  NameTable lookup;                 // positions in names

  explicit IndexEntries(Index index);
  std::optional<int32_t> find(std::string_view name) const {
    return lookup.find(
        name, [&](int32_t i) -> std::string_view { return names[static_cast<size_t>(i)]; });
  }
};

struct IndexMatch {
  std::vector<StoredTensor> tensors;  // parallel to names, but without them; `file`: of the shard
  std::vector<Finding> faults;        // entries without a tensor, or with it in another shard
  std::vector<Finding> reports;       // tensors that the index does not assign to their shard
};

/// `files[i]` is the shard i, or null if it could not be read: its entries are then no fault here.
IndexMatch match_index(const IndexEntries& entries, const std::vector<const CheckpointFile*>& files,
                       int threads);

}  // namespace weightloom
