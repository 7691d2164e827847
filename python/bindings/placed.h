// A DTensor's placement, as Python gives it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "weightloom/sharding/dtensor_placements.h"

namespace weightloom::python {

/// "replicate", "shard" or "strided_shard"; dim; split factor.
using Placed = std::tuple<std::string, int, int64_t>;

inline Placed placed_as(const DTensorPlacement& placement) {
  using Kind = DTensorPlacement::Kind;
  if (placement.kind == Kind::shard) return {"shard", placement.dim, 1};
  if (placement.kind == Kind::replicate) return {"replicate", 0, 1};
  return {"strided_shard", placement.dim, placement.split_factor};
}

inline DTensorPlacement placement_of(const Placed& placed) {
  using Kind = DTensorPlacement::Kind;
  const auto& [kind, dim, factor] = placed;
  if (kind == "shard") return {Kind::shard, dim, 1};
  if (kind == "strided_shard") return {Kind::strided_shard, dim, factor};
  return {};
}

}  // namespace weightloom::python
