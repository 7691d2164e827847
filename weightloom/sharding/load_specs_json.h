// LoadSpecs as text: a list of objects with the specification's names.
//
//   {"name": "layers.0.experts.w1w3", "global_hf_keys": ["e0.gate", "e0.up"], "fused_dim": 0,
//    "global_shape": [256, 64], "origin_shape": [200, 64], "padding": "per_key",
//    "shards": [{"dim": 0, "axis": "ep"},                               rank and size: of a mesh
//               {"dim": 0, "size": 2, "rank": 1, "interleave": 2, "group": "etp"},
//               {"dim": 1, "start": 0, "end": 32, "group": [0, 2]}],
//    "adapter": [{"op": "Transpose", "dim0": 0, "dim1": 1}]}
//
// fused_dim, shards, origin_shape, adapter, interleave and group may be absent; padding is "tail"
// (the default), "per_key" or {"per_cut": AXIS}; adapter has the operations of mapping files.
// Thread safety: values, pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/mapping/operation_makers.h"
#include "weightloom/sharding/load_spec.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The specs of a file; see its top.
/// Errors: format, naming `file`, the entry and the key, also for what LoadSpec::make refuses and
/// for two specs of one name; mapping, for an operation.
std::vector<LoadSpec> parse_load_specs(
    std::string_view json, std::string_view file,
    const OperationMakers& operations = OperationMakers::built_in());
/// The file at `path`.
/// Errors: as parse_load_specs; not_found, io.
std::vector<LoadSpec> read_load_specs(
    const Syscalls& calls, const std::string& path,
    const OperationMakers& operations = OperationMakers::built_in());
/// As parse_load_specs reads it, one spec a line.
std::string format_load_specs(std::span<const LoadSpec> specs);

}  // namespace weightloom
