// For tests: what a spec means, element by element, from the definition and not from intervals.
//
// Each dim is a list of rows: the row of the checkpoint that stands there, or kPadded. A shard
// keeps the places that are members of its part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/layout/layout_testing.h"
#include "weightloom/sharding/load_spec.h"

namespace weightloom::testing {

inline constexpr int64_t kPadded = -1;
using Rows = std::vector<int64_t>;

inline Shape visible_shape(const LoadSpecFields& fields) {
  return fields.origin_shape ? *fields.origin_shape : fields.global_shape;
}

/// True if place `at` of `size` belongs to the part of a shard of this size and interleave.
inline bool is_member(const ShardDescriptor& shard, int64_t rank, int64_t at, int64_t size) {
  if (!shard.size) return at >= *shard.start && at < *shard.end;
  const int64_t ranks = *shard.size;
  if (shard.interleave == 1) {
    const int64_t each = (size + ranks - 1) / ranks;
    return at / each == rank;
  }
  return at / (size / (ranks * shard.interleave)) % ranks == rank;
}

inline Rows kept(const Rows& rows, const ShardDescriptor& shard, int64_t rank) {
  Rows result;
  for (int64_t at = 0; at < std::ssize(rows); ++at) {
    if (is_member(shard, rank, at, std::ssize(rows))) {
      result.push_back(rows[static_cast<size_t>(at)]);
    }
  }
  return result;
}

/// `groups` groups of the visible rows, with padding up to `size` in all.
inline Rows padded_rows(int64_t visible, int64_t size, int64_t groups) {
  Rows rows;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t i = 0; i < size / groups; ++i) {
      rows.push_back(i < visible / groups ? group * (visible / groups) + i : kPadded);
    }
  }
  return rows;
}

/// The rows of a tensor that no shard has cut.
inline std::vector<Rows> whole_rows(const LoadSpecFields& fields) {
  std::vector<Rows> dims;
  for (size_t d = 0; d < fields.global_shape.size(); ++d) {
    int64_t size = fields.global_shape[d];
    const int64_t visible = visible_shape(fields)[d];
    int64_t groups = 1;
    if (fields.padding.scope == PadScope::per_key && fields.fused_dim == static_cast<int>(d)) {
      groups = std::ssize(fields.global_hf_keys);
    }
    for (const ShardDescriptor& shard : fields.shards) {
      const bool is_padded = fields.padding.scope == PadScope::per_cut &&
                             shard.axis == fields.padding.axis && shard.dim == static_cast<int>(d);
      if (is_padded) size = visible;
    }
    dims.push_back(padded_rows(visible, size, groups));
  }
  return dims;
}

/// The rows that the rank holds which stands at `ranks` of the shards; those that `is_taken` says
/// are taken.
template <typename IsTaken>
std::vector<Rows> held_rows(const LoadSpecFields& fields, std::span<const int64_t> ranks,
                            IsTaken is_taken) {
  std::vector<Rows> dims = whole_rows(fields);
  for (size_t i = 0; i < fields.shards.size(); ++i) {
    if (!is_taken(i)) continue;
    const ShardDescriptor& shard = fields.shards[i];
    Rows& rows = dims[static_cast<size_t>(shard.dim)];
    rows = kept(rows, shard, ranks[i]);
    if (fields.padding.scope != PadScope::per_cut || shard.axis != fields.padding.axis) continue;
    int64_t size = fields.global_shape[static_cast<size_t>(shard.dim)];
    for (size_t j = 0; j <= i; ++j) {
      if (fields.shards[j].dim == shard.dim) size /= *fields.shards[j].size;
    }
    rows.resize(static_cast<size_t>(std::max(size, std::ssize(rows))), kPadded);
  }
  return dims;
}

inline std::vector<int64_t> own_ranks(const LoadSpecFields& fields) {
  std::vector<int64_t> ranks;
  for (const ShardDescriptor& shard : fields.shards) ranks.push_back(shard.rank.value_or(0));
  return ranks;
}

inline std::vector<Rows> held_rows(const LoadSpecFields& fields) {
  return held_rows(fields, own_ranks(fields), [](size_t) { return true; });
}

/// What stands at these rows of `whole`; 0 where one is padding.
inline Dense at_rows(const Dense& whole, const std::vector<Rows>& dims) {
  Shape shape;
  for (const Rows& rows : dims) shape.push_back(std::ssize(rows));
  return built(shape, [&](Index index) -> int64_t {
    for (size_t d = 0; d < dims.size(); ++d) {
      index[d] = dims[d][static_cast<size_t>(index[d])];
      if (index[d] == kPadded) return 0;
    }
    return at(whole, index);
  });
}

/// The keys, whose values are all distinct and not 0, and the tensor that they make.
struct Checkpointed {
  Dense whole;
  std::vector<Dense> keys;
};

inline Checkpointed checkpointed(const LoadSpecFields& fields) {
  Checkpointed made{counting(visible_shape(fields), 1), {}};
  const int64_t count = std::ssize(fields.global_hf_keys);
  if (count == 1) return {made.whole, {made.whole}};
  const int dim = *fields.fused_dim;
  const int64_t rows = made.whole.shape[static_cast<size_t>(dim)] / count;
  for (int64_t i = 0; i < count; ++i) {
    made.keys.push_back(dense_slice(made.whole, dim, i * rows, (i + 1) * rows));
  }
  return made;
}

}  // namespace weightloom::testing
