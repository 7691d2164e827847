// FP8 tensors, for the schemes that know their blocks.
#pragma once

#include <cstddef>
#include <optional>

#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {

/// The scale of codes, by any of its names, taken. Findings: scale_missing if there is none,
/// unknown_companion if there are two.
std::optional<size_t> take_scale(QuantisedSearch& search, size_t codes);

/// Makes the tensor of an FP8 leaf, or says why not. Without a block the scale's shape says which
/// values share it.
void make_fp8(QuantisedSearch& search, size_t codes, const std::optional<QuantBlock>& block);

}  // namespace weightloom
