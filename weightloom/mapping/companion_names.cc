#include <algorithm>
#include <array>

#include "weightloom/mapping/companion_names_internal.h"

namespace weightloom {
namespace {

using enum CompanionPlace;
using enum CompanionKind;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kQuantState = ".quant_state";

constexpr CompanionName kNames[] = {
    {"_activation_scale", behind, activation, false},
    {".nested_quant_map", behind, part, true},
    {".nested_absmax", behind, part, true},
    {"_global_scale", behind, part, false},
    {"_input_scale", behind, activation, false},
    {"_zero_point", behind, part, false},
    {"_scale_inv", behind, scale, true},
    {"_bias_scale", behind, part, false},
    {".quant_map", behind, part, true},
    {"_scale_2", behind, part, false},
    {".absmax", behind, part, true},
    {"_packed", behind, part, false},
    {"_blocks", behind, part, false},
    {"_scales", behind, part, false},
    {"_scale", behind, scale, false},
    {"_shape", behind, part, false},
    {"_g_idx", behind, part, false},

    {"weight_scale_inv", beside, scale, true},
    {"weight_scale", beside, scale, true},
    {"scale_inv", beside, scale, true},
    {"scale", beside, scale, false},
    {"scale_weight", beside, scale, true},
    {"qscale_weight", beside, scale, true},
    {"SCB", beside, part, true},
    {"g_idx", beside, part, false},
    {"qweight", beside, part, true},
    {"qzeros", beside, part, true},
    {"scales", beside, part, false},
    {"weight_format", beside, part, true},
    {"weight_global_scale", beside, part, true},
    {"weight_scale_2", beside, part, true},
    {"activation_scale", beside, activation, true},
    {"input_global_scale", beside, activation, true},
    {"input_scale", beside, activation, true},
    {"input_zero_point", beside, activation, true},
    {"output_scale", beside, activation, false},
    {"output_zero_point", beside, activation, false},
    {"qscale_act", beside, activation, true},
    {"scale_input", beside, activation, true},
};

constexpr std::string_view kAttentionScales[] = {
    "k_scale", "k_zero_point", "kv_scale", "prob_scale", "q_scale", "v_scale", "v_zero_point"};

/// As ends_with, with one look at a byte for most names.
bool ends_in(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name[name.size() - suffix.size()] == suffix.front() &&
         name.ends_with(suffix);
}

void add(std::vector<CompanionMatch>& matches, const CompanionName& name, std::string owner) {
  if (std::ranges::find(matches, owner, &CompanionMatch::owner) != matches.end()) return;
  matches.push_back({name, std::move(owner)});
}

void match_behind(std::string_view name, std::vector<CompanionMatch>& matches) {
  for (const CompanionName& known : kNames) {
    if (known.place != behind || !ends_in(name, known.text)) continue;
    std::string owner(name.substr(0, name.size() - known.text.size()));
    CompanionName found = known;
    found.is_plain = known.is_plain || owner.ends_with(kWeight);
    return add(matches, found, std::move(owner));
  }
}

}  // namespace

std::span<const CompanionName> companion_names() { return kNames; }

std::vector<CompanionMatch> companion_matches(std::string_view name) {
  std::vector<CompanionMatch> matches;
  match_behind(name, matches);
  const auto dot = name.rfind('.');
  if (dot == name.npos) return matches;
  const auto module = name.substr(0, dot);
  if (module.ends_with(kQuantState)) {
    add(matches, {kQuantState, behind, part, true},
        std::string(module.substr(0, module.size() - kQuantState.size())));
  }
  for (const CompanionName& known : kNames) {
    if (known.place != beside || name.substr(dot + 1) != known.text) continue;
    add(matches, known, std::string(module) + std::string(kWeight));
  }
  return matches;
}

std::vector<std::string> scale_names_of(std::string_view owner) {
  std::vector<std::string> names;
  const auto add_once = [&](std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  for (const CompanionName& known : kNames) {
    if (known.kind != scale) continue;
    if (known.place == behind) {
      add_once(std::string(owner) + std::string(known.text));
    } else if (owner.ends_with(kWeight)) {
      add_once(std::string(module_of(owner)) + "." + std::string(known.text));
    }
  }
  return names;
}

bool is_attention_scale(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot != name.npos &&
         std::ranges::find(kAttentionScales, name.substr(dot + 1)) != std::end(kAttentionScales);
}

std::string_view module_of(std::string_view name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

}  // namespace weightloom
