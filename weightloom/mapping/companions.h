// Companions: tensors that only mean something beside another one, such as a scale and its weight.
// A converter that takes the weight and leaves its scale behind would make noise, silently. Those
// for which a rule declares the blocks follow their weight; the others are refused.
//
// Thread safety: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/model_config.h"
#include "weightloom/mapping/operation.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A tensor named like another one with `suffix` behind holds one element per block of it.
/// The blocks of the last dims are declared: written down (kWholeDim: the whole dim), or by the
/// list at `block_key` of config.json.
struct CompanionRule {
  std::string suffix;       ///< "_scale_inv"
  std::string block_key{};  ///< a path of keys in config.json; "": `block` says it
  BlockShape block{};       ///< of the last dims

  /// Nothing if config.json does not say.
  std::optional<BlockShape> block_of(const ModelConfig& config) const;
  friend bool operator==(const CompanionRule&, const CompanionRule&) = default;
};

/// Those that need no word in a mapping: "_scale_inv" with quantization_config.weight_block_size,
/// as in DeepSeek-V3's FP8 checkpoints.
const std::vector<CompanionRule>& default_companion_rules();

/// The tensors that `name` may be the companion of, by its spelling; most names: none.
///   "x.weight_scale_inv", "x.scales" -> "x.weight";   "x.up_proj_blocks" -> "x.up_proj"
std::vector<std::string> companion_owners(std::string_view name);

/// As companion_owners(name), and by the suffixes of `rules`.
std::vector<std::string> companion_owners(std::string_view name,
                                          const std::vector<CompanionRule>& rules);

}  // namespace weightloom
