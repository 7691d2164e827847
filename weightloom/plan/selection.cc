#include "weightloom/plan/selection.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "weightloom/base/file.h"
#include "weightloom/mapping/side_evidence.h"

namespace weightloom {
namespace {

std::optional<std::string> read_if_there(const Syscalls& calls, const std::string& path) {
  if (!status_of(calls, path)) return std::nullopt;
  return read_whole_file(calls, path);
}

constexpr std::string_view kSayMapping =
    "name the rules with --mapping NAME or --mapping FILE.json, or keep names with --mapping none";

MappingChoice without_rules(const std::string& label) {
  return {Mapping(label, {}), label, label == "plain", {}, {}};
}

MappingChoice registered(const Mapping& mapping) {
  return {mapping, mapping.name(), mapping.name() != "legacy", {}, {}};
}

MappingChoice unknown(const std::string& message, bool must_know) {
  if (must_know) throw Error(ErrorCode::mapping, message, std::string(kSayMapping));
  MappingChoice choice = without_rules("unknown");
  choice.findings.push_back({Severity::report, "unknown_mapping", "", "", message});
  return choice;
}

MappingChoice choose_by_config(const Checkpoint& checkpoint, const SideFacts& facts,
                               const Registry& registry, bool must_know) {
  const std::string& type = facts.config.model_type();
  if (!facts.config.present()) {
    return unknown(
        fmt::format("{}: no config.json, so the model type is unknown", checkpoint.folder()),
        must_know);
  }
  if (type.empty()) {
    return unknown(fmt::format("{}/config.json: no model_type", checkpoint.folder()), must_know);
  }
  const Mapping* mapping = registry.find_for(facts.architecture, type);
  if (mapping != nullptr) return registered(*mapping);
  if (registry.is_plain(type)) return without_rules("plain");
  return unknown(fmt::format("{}/config.json: model_type '{}' is neither registered nor known to "
                             "need no mapping",
                             checkpoint.folder(), type),
                 must_know);
}

MappingChoice choose_by_name(const std::string& name, const Registry& registry) {
  if (const Mapping* mapping = registry.find(name)) return registered(*mapping);
  if (registry.is_plain(name)) return without_rules("plain");
  const auto similar = registry.similar(name);
  const std::string hint =
      similar.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(similar, " or "));
  throw Error(ErrorCode::mapping, fmt::format("no mapping is called '{}'{}", name, hint),
              fmt::format("known are: {}; a file's name must end in .json",
                          fmt::join(registry.names(), ", ")));
}

MappingChoice read_mapping_file(const Syscalls& calls, const std::string& path,
                                const Registry& registry) {
  Mapping mapping = Mapping::parse(read_whole_file(calls, path), path, registry.operations());
  std::string label = mapping.name();
  return {std::move(mapping), std::move(label), false, {}, {}};
}

bool is_folder(const Syscalls& calls, const std::string& path) {
  const auto status = status_of(calls, path);
  return status && status->kind == FileKind::folder;
}

bool any_matches(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_matches(glob, name); });
}

}  // namespace

std::string_view to_string(Side side) noexcept {
  switch (side) {
    case Side::unknown:
      return "unknown";
    case Side::hub:
      return "hub";
    case Side::runtime:
      return "runtime";
  }
  __builtin_unreachable();
}

SideFacts read_side_facts(const Syscalls& calls, const Checkpoint& checkpoint,
                          const OperationMakers& operations) {
  SideFacts facts;
  const std::string config_path = join_path(checkpoint.folder(), "config.json");
  if (auto text = read_if_there(calls, config_path)) {
    facts.config = ModelConfig::parse(*text, config_path);
    facts.config_json = std::move(*text);
    if (!facts.config.architectures().empty()) {
      facts.architecture = facts.config.architectures().front();
    }
  }
  if (checkpoint.is_single_file()) return facts;
  const std::string record_path = join_path(checkpoint.folder(), std::string(kProvenanceName));
  if (auto text = read_if_there(calls, record_path)) {
    facts.record = parse_provenance(*text, record_path, operations);
  }
  return facts;
}

MappingChoice choose_mapping(const Syscalls& calls, const Checkpoint& checkpoint,
                             const SideFacts& facts, const std::string& wanted,
                             const Registry& registry, bool must_know) {
  if (wanted == "none") return without_rules("none");
  if (wanted.ends_with(".json")) return read_mapping_file(calls, wanted, registry);
  const bool is_name = registry.find(wanted) != nullptr || registry.is_plain(wanted);
  if (wanted != "auto" && !is_name && is_folder(calls, wanted)) {
    return choose_by_config(checkpoint, facts, with_folder(calls, registry, wanted), must_know);
  }
  if (wanted != "auto") return choose_by_name(wanted, registry);
  if (facts.record && facts.record->layout != "unknown") {
    return {facts.record->mapping, facts.record->mapping.name(), false, {}, {}};
  }
  return choose_by_config(checkpoint, facts, registry, must_know);
}

Registry with_folder(const Syscalls& calls, Registry registry, const std::string& folder) {
  Registry own;
  for (const std::string& name : list_folder(calls, folder)) {
    if (!name.ends_with(".json")) continue;
    const std::string path = join_path(folder, name);
    Mapping mapping = Mapping::parse(read_whole_file(calls, path), path, registry.operations());
    try {
      own.add(mapping);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: another file of {} has that name too: {}", path,
                                            folder, error.what()));
    }
    registry.add(std::move(mapping), true);
  }
  if (own.names().empty()) {
    throw Error(ErrorCode::mapping, fmt::format("{}: there is no mapping file in it", folder),
                "put files like those that `weightloom mappings NAME` prints there, their names "
                "ending in .json");
  }
  return registry;
}

std::vector<std::string_view> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string_view> names;
  names.reserve(checkpoint.tensors().size());
  for (const StoredTensor& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return names;
}

Side detect_side(const Checkpoint& checkpoint, const SideFacts& facts, const Mapping& mapping) {
  return detect_side(names_of(checkpoint), facts, mapping);
}

Side detect_side(std::span<const std::string_view> names, const SideFacts& facts,
                 const Mapping& mapping) {
  if (facts.record && facts.record->layout == "hub") return Side::hub;
  if (facts.record && facts.record->layout == "runtime") return Side::runtime;
  const SideEvidence evidence = side_evidence(mapping, names);
  if (evidence.hub && !evidence.runtime) return Side::hub;
  if (evidence.runtime && !evidence.hub) return Side::runtime;
  return Side::unknown;
}

bool glob_matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

bool is_selected(const Selection& selection, const std::string& name) {
  if (any_matches(selection.exclude, name)) return false;
  return selection.include.empty() || any_matches(selection.include, name);
}

}  // namespace weightloom
