// compressed-tensors' config_groups: which modules are quantised how.
#pragma once

#include <vector>

#include "weightloom/mapping/quant_config_internal.h"
#include "weightloom/mapping/quant_config_reader_internal.h"

namespace weightloom {

/// The groups that quantise weights, with findings of what is not known.
/// Source: compressed-tensors, QuantizationArgs and QuantizationScheme.
std::vector<QuantGroup> read_quant_groups(QuantConfigReader& config);

}  // namespace weightloom
