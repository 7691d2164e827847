#include "weightloom/mapping/companions.h"

#include <algorithm>
#include <utility>

#include "weightloom/mapping/companion_names_internal.h"

namespace weightloom {

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
  for (CompanionMatch& match : companion_matches(name)) owners.push_back(std::move(match.owner));
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
