// What the caller asks of a conversion, and what it means for one checkpoint: which mapping, which
// way.
// Thread safety: values, pure functions but for reading files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/plan/renames.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom {

/// Which layout a checkpoint holds: as published (hub), or as a program wants it (runtime).
enum class Side { unknown, hub, runtime };
/// "unknown", "hub", "runtime".
std::string_view to_string(Side side) noexcept;

struct Selection {
  Side from = Side::unknown;     // unknown: found out (record, else the side whose patterns match)
  std::optional<Side> to;        // nothing: the layout stays
  std::string mapping = "auto";  // auto, none, a name, or a path that ends in .json
  std::vector<Rename> renames;   // run on the source's names, before the mapping
  std::vector<std::string> include;  // globs over target names; none: all
  std::vector<std::string> exclude;  // wins over include
  bool lenient = false;

  bool is_partial() const noexcept { return !include.empty() || !exclude.empty(); }
};

/// What stands beside the tensors.
struct SideFacts {
  ModelConfig config;
  std::string config_json;           // "" without one
  std::optional<Provenance> record;  // weightloom.json
};
/// Errors: format if config.json or weightloom.json is broken.
SideFacts read_side_facts(const Syscalls& calls, const Checkpoint& checkpoint);

struct MappingChoice {
  Mapping mapping;
  std::string label;              // its name; "none", "plain" or "unknown"
  std::vector<Finding> findings;  // why it is unknown, as a report
};
/// Errors: mapping if the name or file is unknown or wrong, or if `must_know` and `auto` cannot
/// tell.
MappingChoice choose_mapping(const Syscalls& calls, const Checkpoint& checkpoint,
                             const SideFacts& facts, const std::string& wanted,
                             const Registry& registry, bool must_know);

/// The side that names are on, by the record, else by which side's patterns match.
/// Side::unknown if neither tells, or both.
Side detect_side(const Checkpoint& checkpoint, const SideFacts& facts, const Mapping& mapping);
/// As above, of a checkpoint whose tensors have these names.
Side detect_side(std::span<const std::string_view> names, const SideFacts& facts,
                 const Mapping& mapping);
/// The names of a checkpoint's tensors, in their order.
std::vector<std::string_view> names_of(const Checkpoint& checkpoint);

/// True if `name` matches the shell glob (`*` matches any run, "/" and "." too).
bool glob_matches(const std::string& glob, const std::string& name);
/// True if include and exclude let `name` pass.
bool is_selected(const Selection& selection, const std::string& name);

}  // namespace weightloom
