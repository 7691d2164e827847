// What stands beside the tensors of a checkpoint, and what follows from it: the rules that apply,
// the model that is to hold the tensors, the side that names are on.
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
#include "weightloom/mapping/model_tree.h"
#include "weightloom/mapping/provenance.h"
#include "weightloom/mapping/registry.h"
#include "weightloom/mapping/runtime_names.h"
#include "weightloom/mapping/tied_weights.h"
#include "weightloom/plan/selection.h"
#include "weightloom/safetensors/checkpoint.h"

namespace weightloom WEIGHTLOOM_EXPORT {

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

/// The models of the class in config.json, or of its model_type; empty if it is not known.
ModelTree tree_of(const SideFacts& facts, const Registry& registry);

/// What is known of the model that is to hold the tensors.
struct ModelFacts {
  RuntimeNames runtime{};          ///< the names it has
  std::vector<TiedPair> tied{};    ///< config.json says that they are one tensor
  std::vector<TiedPair> untied{};  ///< it says that they are not
  bool ties_are_assumed = false;   ///< they are those of the usual names: the class is unknown
  std::vector<std::string> ignore_missing{};     ///< patterns of tensors that it can do without
  std::vector<std::string> ignore_unexpected{};  ///< patterns of tensors that it does not mind
};

/// The rules that apply to a checkpoint, and how they were found.
struct MappingChoice {
  Mapping mapping;           ///< empty where names stay
  std::string label;         ///< its name; "none", "plain" or "unknown"
  bool with_legacy = false;  ///< on the way to the runtime side, old names are understood too
  std::vector<Finding> findings{};  ///< why it, or a part of it, is unknown, as reports
  ModelFacts model{};               ///< of the class that is to hold the tensors
  /// With a quantiser and old names: what it makes of both. `mapping` is what it makes of the rules
  /// without old names.
  std::optional<Mapping> with_old_names{};
};
/// By `auto`: the record's; else those of the class and its sub-models (model_tree.h); of a class
/// that is unknown, those of its model_type. Custom code (`auto_map`) has only what the user
/// registered. Rules that are not the record's, nor `none`, are then as the registry's quantiser
/// for config.json's `quant_method` has them.
/// Errors: mapping if the name or file is unknown or wrong, or if `must_know` and `auto` cannot
/// tell.
MappingChoice choose_mapping(const Syscalls& calls, const Checkpoint& checkpoint,
                             const SideFacts& facts, const std::string& wanted,
                             const Registry& registry, bool must_know);

/// The registry with the mappings of a folder's *.json files, which go before what it has.
/// Errors: mapping, format, io; also if there is none, or two have one name.
Registry with_folder(const Syscalls& calls, Registry registry, const std::string& folder);

/// The side that names are on, by the record, else by which side's patterns match.
/// Where neither or both do, the names of the model tell, if they are known: the runtime side has
/// no others; the hub side is what has others and no sign of the runtime. Else Side::unknown.
Side detect_side(const Checkpoint& checkpoint, const SideFacts& facts, const Mapping& mapping,
                 const RuntimeNames& runtime = {});
/// As above, of a checkpoint whose tensors have these names.
Side detect_side(std::span<const std::string_view> names, const SideFacts& facts,
                 const Mapping& mapping, const RuntimeNames& runtime = {});
/// The names of a checkpoint's tensors, in their order.
std::vector<std::string_view> names_of(const Checkpoint& checkpoint);

}  // namespace weightloom
