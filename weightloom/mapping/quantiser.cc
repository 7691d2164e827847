#include "weightloom/mapping/quantiser.h"

#include <iterator>
#include <utility>

#include "weightloom/mapping/quant_config_internal.h"

namespace weightloom {

std::string quant_method_of(const ModelConfig& config) { return read_quant_config(config).name; }

Mapping quantised_mapping(const Mapping& mapping, const Quantiser& quantiser,
                          const ModelConfig& config) {
  std::vector<WeightTransform> transforms = mapping.transforms();
  if (quantiser.weight_conversions) {
    std::vector<WeightTransform> more = quantiser.weight_conversions(config);
    std::move(more.begin(), more.end(), std::back_inserter(transforms));
  }
  if (quantiser.update_weight_conversions) {
    transforms = quantiser.update_weight_conversions(std::move(transforms), config);
  }
  return Mapping(mapping.name(), std::move(transforms),
                 {mapping.aliases(), mapping.dtype_rules(), mapping.companions()});
}

}  // namespace weightloom
