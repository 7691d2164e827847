// Checks of what was collected for one converter, before its operations run: is everything there,
// once, in its place, of one dtype?
#pragma once

#include <span>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/collect_internal.h"

namespace weightloom {

/// Sorts the group's lists by index and says what is wrong with them. `mixed_floats`: dtypes may
/// differ if all can be cast.
std::vector<Finding> check_group(Collector& collector, Group& group,
                                 std::span<const NamedLayout> leaves,
                                 std::optional<ListLength> length, bool mixed_floats);

}  // namespace weightloom
