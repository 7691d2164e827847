// Rules by which a dim is cut into parts: which stretches of it part p of n holds, in order.
//
// One rule decides for everyone: what loads, what saves and what proves a partition ask here.
// Source: torch.chunk and DTensor's Shard and _StridedShard; numpy.array_split (balanced); Megatron
// and vLLM (even); veScale's RaggedShard (ragged). Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/segments.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the rows of a dim, or of each of its groups, go to the parts.
enum class CutRule {
  chunk,        ///< ⌈n/parts⌉ each; the last may be short or empty (torch.chunk, FSDP2, DTensor)
  balanced,     ///< sizes differ by at most one, the larger first (numpy.array_split)
  even,         ///< n/parts each; refused where parts does not divide n (Megatron)
  round_robin,  ///< row i goes to part i mod parts (a placement of experts)
  ragged,       ///< by `units`, in multiples of `granularity` rows (veScale)
  table,        ///< as `table` says: any stretches in any order, one row perhaps in several parts
};
/// "chunk", "balanced", "even", "round_robin", "ragged", "table".
std::string_view to_string(CutRule rule) noexcept;

/// A cut of one dim. Without groups the dim is one group; with groups each is cut by the rule, and
/// a part is what it gets of each, one after another.
struct Cut {
  CutRule rule = CutRule::chunk;  ///< within each group
  /// Equal groups that stand in the dim by now: gate|up is 2; E experts of gate|up are 2E. The dim
  /// falls into ⌈n/stripes⌉ rows each, so that the last may be short or empty
  /// (torch's _StridedShard).
  int64_t stripes = 1;
  std::vector<int64_t> groups{};  ///< sizes of unequal groups (Q|K|V); then `stripes` is 1
  std::vector<int64_t> units{};   ///< ragged: the share of each part
  int64_t granularity = 1;        ///< ragged: no part begins inside a block of so many rows
  std::vector<std::vector<Interval>> table{};  ///< table: the stretches of each part, in order

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// What part `part` of `parts` holds of a dim of `size` elements, in its order; no empty interval.
/// Errors: usage if the rule does not fit the size, with the numbers; if part is not in [0, parts).
std::vector<Interval> part_of(const Cut& cut, int64_t size, int64_t parts, int64_t part);

}  // namespace weightloom
