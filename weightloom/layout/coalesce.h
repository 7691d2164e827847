// Fewer regions for the same map; done once, at emission.
#pragma once

#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Sorts by target offset, normalizes, and joins neighbours that one region can say.
/// Law: the same pairs (target, source); the invariant of regions holds.
std::vector<Region> coalesce(std::vector<Region> regions);

}  // namespace weightloom
