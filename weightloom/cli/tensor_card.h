// The part of a plan's page that shows one pattern of tensors: its keys, each to scale, and what
// each rank holds of it.
#pragma once

#include <string>

#include "weightloom/cli/plan_picture.h"

namespace weightloom::cli {

/// "rank 3", "ranks {0..3}".
std::string ranks_text(const std::vector<int64_t>& ranks);
std::string tensor_card(const PlanPicture& picture, const TensorPattern& pattern);

}  // namespace weightloom::cli
