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
#include "weightloom/base/export.h"
#include "weightloom/base/syscalls.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/mapping/runtime_names.h"
#include "weightloom/plan/renames.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Which layout a checkpoint holds: as published (hub), or as a program wants it (runtime).
enum class Side { unknown, hub, runtime };
/// "unknown", "hub", "runtime".
std::string_view to_string(Side side) noexcept;

/// What the caller asks for. The default asks for the checkpoint as it is.
struct Selection {
  /// unknown: found out (record, else the side whose patterns match)
  Side from = Side::unknown;
  std::optional<Side> to;  ///< nothing: the layout stays
  /// auto, none, a name, a path that ends in .json, or a folder of such files, which go before the
  /// shipped ones
  std::string mapping = "auto";
  std::string architecture;             ///< the class that is to hold the model; "": config.json's
  std::vector<Rename> renames;          ///< run on the source's names, before the mapping
  std::vector<std::string> include;     ///< globs over target names; none: all
  std::vector<std::string> exclude;     ///< wins over include
  bool lenient = false;                 ///< let pass source tensors that no target uses
  std::optional<DType> dtype;           ///< what targets of castable dtypes become; nothing: kept
  std::vector<std::string> keep_dtype;  ///< globs over target names that `dtype` does not touch

  /// True if include or exclude may leave targets out.
  bool is_partial() const noexcept { return !include.empty() || !exclude.empty(); }
};

/// What stands beside the tensors.
struct SideFacts {
  ModelConfig config;                ///< parsed
  std::string config_json;           ///< its text; "" without one
  std::string architecture;          ///< the class that is to hold the model; "" if unknown
  std::optional<Provenance> record;  ///< weightloom.json
};
/// Errors: format if config.json or weightloom.json is broken.
SideFacts read_side_facts(const Syscalls& calls, const Checkpoint& checkpoint,
                          const OperationMakers& operations = OperationMakers::built_in());

/// The rules that apply to a checkpoint, and how they were found.
struct MappingChoice {
  Mapping mapping;                ///< empty where names stay
  std::string label;              ///< its name; "none", "plain" or "unknown"
  bool with_legacy = false;       ///< on the way to the runtime side, old names are understood too
  std::vector<Finding> findings;  ///< why it is unknown, as a report
  RuntimeNames runtime{};         ///< what is known of the model's names
};
/// Errors: mapping if the name or file is unknown or wrong, or if `must_know` and `auto` cannot
/// tell.
MappingChoice choose_mapping(const Syscalls& calls, const Checkpoint& checkpoint,
                             const SideFacts& facts, const std::string& wanted,
                             const Registry& registry, bool must_know);

/// The registry with the mappings of a folder's *.json files, which go before what it has.
/// Errors: mapping, format, io; also if there is none, or two have one name.
Registry with_folder(const Syscalls& calls, Registry registry, const std::string& folder);

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
