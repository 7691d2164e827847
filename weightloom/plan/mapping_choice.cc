#include "weightloom/plan/mapping_choice.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/file.h"
#include "weightloom/mapping/model_tree.h"
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

constexpr std::string_view kUsualHead = "lm_head.weight";
constexpr std::string_view kUsualEmbedding = "model.embed_tokens.weight";

/// Of a model whose class is unknown: the usual names are tied as config.json says.
ModelFacts assumed_facts(const ModelConfig& config) {
  ModelFacts facts;
  facts.ties_are_assumed = true;
  const auto said = config.flag_at("tie_word_embeddings");
  if (said) (*said ? facts.tied : facts.untied).emplace_back(kUsualHead, kUsualEmbedding);
  return facts;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

ModelFacts facts_of(const ModelTree& tree, const ModelConfig& config) {
  if (tree.nodes.empty()) return assumed_facts(config);
  ModelFacts facts;
  facts.runtime = names_of(tree);
  TreeTies ties = tied_in(tree, config);
  facts.tied = std::move(ties.tied);
  facts.untied = std::move(ties.untied);
  for (const ModelNode& node : tree.nodes) {
    append(facts.ignore_missing, node.model->ignore_on_load_missing);
    append(facts.ignore_unexpected, node.model->ignore_on_load_unexpected);
  }
  append(facts.ignore_unexpected, {R"(rotary_emb\.inv_freq)", R"((^|\.)position_ids$)"});
  return facts;
}

Finding report(std::string code, std::string message) {
  return {Severity::report, std::move(code), "", "", std::move(message)};
}

/// The rules of a class of the catalogue and its sub-models.
MappingChoice choose_by_tree(const ModelTree& tree, const Registry& registry) {
  TreeMapping made = mapping_of(tree, registry);
  MappingChoice choice{std::move(made.mapping), std::move(made.label), true};
  for (const std::string& part : tree.unknown) {
    choice.findings.push_back(report(
        "unknown_submodel", fmt::format("{} of {} are not known: names there stay as they are",
                                        part, tree.nodes.front().model->name)));
  }
  return choice;
}

/// A class that the catalogue does not have.
MappingChoice choose_by_type(const Checkpoint& checkpoint, const SideFacts& facts,
                             const Registry& registry, bool must_know) {
  const std::string& type = facts.config.model_type();
  const bool is_custom = !facts.architecture.empty() && facts.config.has("auto_map");
  const Mapping* mapping = is_custom ? registry.find_registered(facts.architecture, type)
                                     : registry.find_for(facts.architecture, type);
  if (mapping != nullptr) return registered(*mapping);
  if (is_custom) {
    MappingChoice choice = without_rules("custom code");
    choice.findings.push_back(
        report("custom_code", fmt::format("{}/config.json: {} is custom code, for which no mapping "
                                          "is registered: names stay as they are",
                                          checkpoint.folder(), facts.architecture)));
    return choice;
  }
  if (registry.is_plain(type)) return without_rules("plain");
  return unknown(fmt::format("{}/config.json: model_type '{}' is neither registered nor known to "
                             "need no mapping",
                             checkpoint.folder(), type),
                 must_know);
}

MappingChoice choose_by_config(const Checkpoint& checkpoint, const SideFacts& facts,
                               const Registry& registry, bool must_know) {
  if (!facts.config.present()) {
    return unknown(
        fmt::format("{}: no config.json, so the model type is unknown", checkpoint.folder()),
        must_know);
  }
  const ModelTree tree = tree_of(facts, registry);
  if (!tree.nodes.empty()) return choose_by_tree(tree, registry);
  if (facts.config.model_type().empty()) {
    return unknown(fmt::format("{}/config.json: no model_type", checkpoint.folder()), must_know);
  }
  return choose_by_type(checkpoint, facts, registry, must_know);
}

MappingChoice choose_by_name(const std::string& name, const Registry& registry) {
  if (const Mapping* mapping = registry.find(name)) return registered(*mapping);
  if (registry.is_plain(name)) return without_rules("plain");
  const auto similar = registry.similar(name);
  const std::string hint =
      similar.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(similar, " or "));
  throw Error(ErrorCode::mapping, fmt::format("no mapping is called '{}'{}", name, hint),
              "'weightloom mappings' lists those there are; a file's name must end in .json");
}

MappingChoice read_mapping_file(const Syscalls& calls, const std::string& path,
                                const Registry& registry) {
  Mapping mapping = Mapping::parse(read_whole_file(calls, path), path, registry.operations());
  std::string label = mapping.name();
  return {std::move(mapping), std::move(label), false, {}, {}};
}

bool is_by_record(const SideFacts& facts, const std::string& wanted) {
  return wanted == "auto" && facts.record && facts.record->layout != "unknown";
}

/// What the scheme that config.json names adds and rewrites; a record's rules have it already.
void apply_quantiser(MappingChoice& choice, const SideFacts& facts, const Registry& registry) {
  const Quantiser* quantiser = registry.find_quantiser(quant_method_of(facts.config));
  if (quantiser == nullptr) return;
  if (choice.with_legacy) {
    choice.with_old_names =
        quantised_mapping(choice.mapping.followed_by(registry.legacy()), *quantiser, facts.config);
  }
  choice.mapping = quantised_mapping(choice.mapping, *quantiser, facts.config);
}

bool is_folder(const Syscalls& calls, const std::string& path) {
  const auto status = status_of(calls, path);
  return status && status->kind == FileKind::folder;
}

MappingChoice choose_rules(const Syscalls& calls, const Checkpoint& checkpoint,
                           const SideFacts& facts, const std::string& wanted,
                           const Registry& registry, bool must_know) {
  if (wanted == "none") return without_rules("none");
  if (wanted.ends_with(".json")) return read_mapping_file(calls, wanted, registry);
  const bool is_name = registry.contains(wanted) || registry.is_plain(wanted);
  if (wanted != "auto" && !is_name && is_folder(calls, wanted)) {
    return choose_by_config(checkpoint, facts, with_folder(calls, registry, wanted), must_know);
  }
  if (wanted != "auto") return choose_by_name(wanted, registry);
  if (is_by_record(facts, wanted)) {
    return {facts.record->mapping, facts.record->mapping.name(), false};
  }
  return choose_by_config(checkpoint, facts, registry, must_know);
}

}  // namespace

/// The class that is to hold the model: as asked for, else as config.json says, else the one that
/// AutoModel takes for its model_type.
ModelTree tree_of(const SideFacts& facts, const Registry& registry) {
  if (!facts.config.present()) return {};
  if (!facts.architecture.empty()) {
    return model_tree(registry.models(), facts.architecture, facts.config);
  }
  const auto base = registry.models().class_for("AutoModel", facts.config.model_type());
  return base ? model_tree(registry.models(), *base, facts.config) : ModelTree();
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
  MappingChoice choice = choose_rules(calls, checkpoint, facts, wanted, registry, must_know);
  if (wanted != "none" && !is_by_record(facts, wanted)) apply_quantiser(choice, facts, registry);
  choice.model = facts_of(tree_of(facts, registry), facts.config);
  // Rules that were named say all: names are changed by nothing else.
  const bool was_found = wanted == "auto" || is_folder(calls, wanted);
  if (!was_found || facts.architecture.empty()) choice.model.runtime = {};
  return choice;
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

Side detect_side(const Checkpoint& checkpoint, const SideFacts& facts, const Mapping& mapping,
                 const RuntimeNames& runtime) {
  return detect_side(names_of(checkpoint), facts, mapping, runtime);
}

Side detect_side(std::span<const std::string_view> names, const SideFacts& facts,
                 const Mapping& mapping, const RuntimeNames& runtime) {
  if (facts.record && facts.record->layout == "hub") return Side::hub;
  if (facts.record && facts.record->layout == "runtime") return Side::runtime;
  const SideEvidence evidence = side_evidence(mapping, names);
  if (evidence.hub && !evidence.runtime) return Side::hub;
  if (evidence.runtime && !evidence.hub) return Side::runtime;
  if (!runtime.known() || mapping.empty()) return Side::unknown;
  const bool all = std::ranges::all_of(names, [&](auto name) { return runtime.has(name); });
  if (all) return Side::runtime;
  return evidence.hub ? Side::unknown : Side::hub;
}

}  // namespace weightloom
