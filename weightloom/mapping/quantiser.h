// Quantisers of the caller's: what a scheme of config.json adds to the rules of a model, and how it
// rewrites them.
//
// Transformers' quantisers have the same two hooks (get_weight_conversions and
// update_weight_conversions). A quantiser says names and layouts; it computes no values.
// Thread safety: as its functions are; conversions may call them at the same time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/model_config.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a scheme does to the list of transforms from hub names to runtime names. Either function
/// may be empty.
struct Quantiser {
  /// Transforms that are put behind those of the model.
  std::function<std::vector<WeightTransform>(const ModelConfig&)> weight_conversions{};
  /// The whole list, those included, as it is to be: changed, reordered, or another one.
  std::function<std::vector<WeightTransform>(std::vector<WeightTransform>, const ModelConfig&)>
      update_weight_conversions{};
};

/// `quant_method` of config.json, as it spells it, wherever it stands there; "" without one.
std::string quant_method_of(const ModelConfig& config);

/// The mapping as a quantiser has it: name, aliases, rules on dtypes and companions stay.
/// Errors: those of Mapping, and what the quantiser's functions throw.
Mapping quantised_mapping(const Mapping& mapping, const Quantiser& quantiser,
                          const ModelConfig& config);

}  // namespace weightloom
