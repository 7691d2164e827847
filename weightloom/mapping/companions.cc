#include "weightloom/mapping/companions.h"

#include <algorithm>
#include <array>

namespace weightloom {
namespace {

/// What follows the whole name of the owner.
constexpr std::string_view kSuffixes[] = {
    "_scale_inv",  "_scale",  "_scale_2",   "_zero_point",    "_shape",
    "_packed",     "_g_idx",  "_blocks",    "_scales",        "_global_scale",
    "_bias_scale", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map",
};

/// What stands beside a ".weight".
constexpr std::string_view kSiblings[] = {
    "SCB",
    "activation_scale",
    "g_idx",
    "input_global_scale",
    "input_scale",
    "qscale_act",
    "qscale_weight",
    "qweight",
    "qzeros",
    "scale",
    "scale_inv",
    "scale_weight",
    "scales",
    "weight_format",
    "weight_global_scale",
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
};

/// As ends_with, with one look at a byte for most names.
bool ends_in(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name[name.size() - suffix.size()] == suffix.front() &&
         name.ends_with(suffix);
}

}  // namespace

std::optional<BlockShape> CompanionRule::block_of(const ModelConfig& config) const {
  if (block_key.empty()) return block;
  auto declared = config.integers_at(block_key);
  const bool sound = declared && !declared->empty() &&
                     std::ranges::all_of(*declared, [](int64_t size) { return size > 0; });
  return sound ? declared : std::nullopt;
}

const std::vector<CompanionRule>& default_companion_rules() {
  static const std::vector<CompanionRule> rules = {
      {"_scale_inv", "quantization_config.weight_block_size"}};
  return rules;
}

std::vector<std::string> companion_owners(std::string_view name) {
  std::vector<std::string> owners;
  for (const auto suffix : kSuffixes) {
    if (!ends_in(name, suffix)) continue;
    owners.emplace_back(name.substr(0, name.size() - suffix.size()));
    break;
  }
  const auto dot = name.rfind('.');
  if (dot == name.npos) return owners;
  const auto module = name.substr(0, dot);
  constexpr std::string_view kQuantState = ".quant_state";
  if (module.ends_with(kQuantState)) {
    owners.emplace_back(module.substr(0, module.size() - kQuantState.size()));
  }
  if (std::ranges::find(kSiblings, name.substr(dot + 1)) != std::end(kSiblings)) {
    std::string weight = std::string(module) + ".weight";
    if (std::ranges::find(owners, weight) == owners.end()) owners.push_back(std::move(weight));
  }
  return owners;
}

std::vector<std::string> companion_owners(std::string_view name,
                                          const std::vector<CompanionRule>& rules) {
  std::vector<std::string> owners = companion_owners(name);
  for (const CompanionRule& rule : rules) {
    if (name.size() <= rule.suffix.size() || !name.ends_with(rule.suffix)) continue;
    std::string owner(name.substr(0, name.size() - rule.suffix.size()));
    if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(std::move(owner));
  }
  return owners;
}

}  // namespace weightloom
