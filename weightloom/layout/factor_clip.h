// The two primitives that carry every operation.
#pragma once

#include <cstdint>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// True if no element of the region carries: factor would give the region itself.
bool is_factored(const Region& region, int64_t m) noexcept;

/// Splits a region so that in every piece the target offset is q·m + r with 0 ≤ r < m and no carry:
/// each axis either steps by a multiple of m, or all axes that do not stay together inside one
/// block.
/// Law:    the pieces hold the region's pairs (target, source), each once. Bound:  at most
/// 2a+1 pieces for a axes whose strides m does not divide, where strides and m divide
///         one another; else as many as row patterns cross.
/// Errors: plan if more than kMaxRegions pieces would arise.
std::vector<Region> factor(const Region& region, int64_t m);

/// The part of a region, already factored by m, whose remainder lies in [lo, hi), 0 ≤ lo ≤ hi ≤ m.
/// Law: exactly the pairs (target, source) with lo ≤ target mod m < hi.
std::vector<Region> clip(const Region& region, int64_t m, int64_t lo, int64_t hi);

}  // namespace weightloom
