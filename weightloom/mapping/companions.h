// Companions: tensors that only mean something beside another one, such as a scale and its weight.
// A converter that takes the weight and leaves its scale behind would make noise, silently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The tensors that `name` may be the companion of, by its spelling; most names: none.
///   "x.weight_scale_inv", "x.scales" -> "x.weight";   "x.up_proj_blocks" -> "x.up_proj"
std::vector<std::string> companion_owners(std::string_view name);

}  // namespace weightloom
