// Coverage: does a layout give every element exactly once?
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weightloom/layout/layout.h"

namespace weightloom {

/// The first element (linear offset) that is covered `times` ≠ 1 times.
struct CoverageFault {
  int64_t offset = 0;
  int64_t times = 0;
};

/// Nothing if every element of the shape is covered exactly once. Exact: sums and disjoint hulls where
/// they decide, an exact sweep where regions interleave.
std::optional<CoverageFault> coverage_fault(const Layout& layout);
/// Elements of a source of `size` elements that none (times 0) or several of the given regions read:
/// the same question for the source side. `readers` all name that source.
std::optional<CoverageFault> coverage_fault(int64_t size, std::vector<Region> readers_on_target);

}  // namespace weightloom
