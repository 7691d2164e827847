// Shardings as text: the list of placements that a placements file and a manifest hold, in carving
// order.
//
//   {"axis": "tp", "shard": 0}                                         ⌈n/parts⌉ rows each
//   {"axis": "tp", "shard": 0, "rule": "balanced" | "even" | "round_robin"}
//   {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}     each of 2 equal groups cut
//   {"axis": "tp", "shard": 0, "groups": [4096, 1024, 1024]}           each of unequal groups cut
//   {"axis": "tp", "shard": 0, "copies": 2}                            2 neighbours hold one part
//   {"axis": "dp", "shard": 0, "units": [1, 3], "granularity": 128}    uneven, by whole blocks
//   {"axis": "ep", "shard": 0, "table": [[[0, 4]], [[4, 6], [0, 1]]]}  rows of each part, in order
//   {"axis": "fsdp", "replicate": true}                                says so; changes nothing
//   {"axis": "pp", "stage": [0, 1]}                                    only these coordinates
//   {"pad": {"dim": 0, "multiple": 128, "groups": 1, "at_least": 0}}   each group, at its tail
// Thread safety: values, pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/sharding/sharding.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How the tensors are spread whose name matches a glob.
struct PlacementRule {
  std::string pattern;  ///< a shell glob over the whole name
  Sharding sharding{};  ///< of each of them

  friend bool operator==(const PlacementRule&, const PlacementRule&) = default;
};

/// A list of `{"pattern": GLOB, "placements": [...], "mesh": NAME}`; the first match wins, `mesh`
/// may be absent.
/// Errors: format, naming `file`, the entry and the key.
std::vector<PlacementRule> parse_placements(std::string_view json, std::string_view file);
/// The file at `path`.
/// Errors: as parse_placements; not_found, io.
std::vector<PlacementRule> read_placements(const Syscalls& calls, const std::string& path);
/// The first rule that matches; null if none does.
const Sharding* find_placement(std::span<const PlacementRule> rules, const std::string& name);

}  // namespace weightloom
