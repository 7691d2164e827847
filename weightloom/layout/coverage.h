// Coverage: does a layout give every element exactly once?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The first element (linear offset) that is covered `times` ≠ 1 times.
struct CoverageFault {
  int64_t offset = 0;  ///< linear, in elements
  int64_t times = 0;   ///< how often it is covered

  friend bool operator==(const CoverageFault&, const CoverageFault&) = default;
};

/// Nothing if every element of the shape is covered exactly once. Exact: disjoint hulls where they
/// decide, blocks of the coarsest stride where regions interleave, counting where strides do not
/// divide one another (time then grows with the elements of those regions; memory stays at 16 MiB).
/// Errors: usage if a region is out of bounds or not nested.
std::optional<CoverageFault> coverage_fault(const Layout& layout);
/// The same question for a source of `size` elements: one that none (times 0) or several of
/// `readers` read. All readers name that source, offsets are those on their source side; pads read
/// nothing.
std::optional<CoverageFault> coverage_fault(int64_t size, std::span<const Region> readers);

}  // namespace weightloom
