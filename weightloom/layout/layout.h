// A Layout says where each element of one logical tensor comes from.
//
// It is a shape and disjoint regions. A region is a strided copy
//     element  target_offset + Σ kᵢ·target_strideᵢ   comes from   source_offset + Σ
//     kᵢ·source_strideᵢ
// for 0 ≤ kᵢ < extentᵢ; offsets are linear in row-major order of the logical tensor, all in
// elements. Notation (notation.h):  (2, 3):[0<-s0+0 (2:3<-3, 3:1<-1)].
//
// Invariant of a region: axes ordered by target stride, outermost first; no axis of extent 1 (or
// 0); strides non-negative and, on the target side and (but for pads) on the source side, nested:
// each stride exceeds the span Σ (extent-1)·stride of all smaller ones. So no region holds an
// element twice. A pad is a region without a source: its elements have a value; its source strides
// are 0. An empty tensor has no regions.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/base/shape.h"
#include "weightloom/layout/axis_list.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A source tensor, by its place in a list that the layout's owner keeps; kPad is none.
using SourceId = int32_t;
inline constexpr SourceId kPad = -1;  ///< The source of a pad: none.

/// Beyond this many regions in one layout an operation refuses: such a map is no longer a layout.
inline constexpr int64_t kMaxRegions = 4'000'000;

/// A strided copy from one source, or a pad.
struct Region {
  SourceId source = kPad;     ///< kPad: none
  int64_t pad_value = 0;      ///< of a pad: a small integer, encoded in the dtype at emission
  int64_t source_offset = 0;  ///< of its first element
  int64_t target_offset = 0;  ///< of its first element
  AxisList axes;              ///< outermost first

  /// True if its elements have a value and no source.
  bool is_pad() const noexcept { return source == kPad; }

  friend bool operator==(const Region&, const Region&) = default;
};

/// Number of elements of a region.
int64_t volume(const Region& region) noexcept;
/// Σ (extent-1)·stride: the last element lies at offset + span.
int64_t target_span(const Region& region) noexcept;
int64_t source_span(const Region& region) noexcept;  ///< As target_span, on the source side.
/// True if each target (source) stride exceeds the span of all smaller ones.
bool nested_on_target(const Region& region);
bool nested_on_source(const Region& region);  ///< As nested_on_target, on the source side.

/// Canonical form: extent-1 axes dropped, axes by target stride descending, neighbours that walk as
/// one merged. Never applied between factor and the use of its result, which needs the axes apart.
/// Law: the same pairs (target, source).
Region normalized(Region region);

/// Where each element of one logical tensor comes from; see the top of this file.
class Layout {
 public:
  /// An empty tensor of shape [0].
  Layout() : shape_{0} {}

  /// Normalizes and checks `regions`: in bounds and nested; that they cover exactly once is what
  /// coverage.h checks.
  /// Errors: usage, naming the region.
  static Layout make(Shape shape, std::vector<Region> regions);
  /// For operations of this room, whose results hold the invariant by construction.
  static Layout unchecked(Shape shape, std::vector<Region> regions);

  /// Of the logical tensor.
  const Shape& shape() const noexcept { return shape_; }
  /// Normalized, in the order they were given.
  std::span<const Region> regions() const& noexcept { return regions_; }
  /// Moves the regions out of an expiring layout.
  std::vector<Region> regions() && noexcept { return std::move(regions_); }
  /// Number of elements.
  int64_t size() const noexcept { return elements(shape_); }
  /// Number of dimensions.
  int rank() const noexcept { return static_cast<int>(shape_.size()); }

 private:
  Layout(Shape shape, std::vector<Region> regions);

  Shape shape_;
  std::vector<Region> regions_;
};

}  // namespace weightloom
