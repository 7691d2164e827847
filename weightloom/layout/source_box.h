// Boxes of a source: which rows and columns of it a region takes, for whoever cannot lend single
// elements of it (a decoder makes boxes).
// Thread safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"
#include "weightloom/layout/segments.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One interval per dim.
using Box = std::vector<Interval>;

/// Number of elements of a box.
int64_t volume(const Box& box) noexcept;

/// A part of a region, and the smallest box of its source that holds what it takes. Each axis of
/// the part steps along one dim of the source.
struct BoxedRegion {
  Region region;  ///< its source side counts in the whole source
  Box box;        ///< of the source
};

/// Splits a region so that no step carries from one dim of its source into another.
/// Law:    the parts hold the region's pairs (target, source), each once; each box is tight.
/// Errors: plan as factor.   Precondition: no pad; its source has shape `source`.
std::vector<BoxedRegion> source_boxes(const Region& region, const Shape& source);

/// A part from source_boxes with its source side counted in `box`, row-major, instead of the whole
/// source.   Precondition: `box` encloses the part's own.
Region within_box(const Region& part, const Shape& source, std::span<const Interval> box);

}  // namespace weightloom
