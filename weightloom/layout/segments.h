// What a part of a dim holds: stretches of the whole dim, in the part's own order.
//
// Cuts, pads and placements act on one dim at a time, so what a rank holds of a tensor is a product
// of one such list per dim. A list stays short: a cut into stripes has one segment a stripe,
// however long the stripes are. Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Elements [begin, end) of a dim.
struct Interval {
  int64_t begin = 0;  ///< the first
  int64_t end = 0;    ///< the one after the last

  /// How many there are.
  int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A stretch of a part of a dim: elements [begin, begin + size) of the whole, or `size` padded
/// ones.
struct Segment {
  int64_t begin = 0;    ///< in the whole dim; 0 for a pad
  int64_t size = 0;     ///< more than 0
  bool is_pad = false;  ///< comes from nowhere

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// What a part holds of a dim, in its order; normal form: no empty segment, neighbours that go on
/// where the one before ended joined.
using Segments = std::vector<Segment>;

/// A dim of `size` elements, whole.
Segments whole_dim(int64_t size);
/// How many elements a part has, pads included.
int64_t length(const Segments& segments) noexcept;
/// Appends a segment, in normal form.
void append_segment(Segments& segments, const Segment& segment);
/// The elements of a part at [begin, end) of its own order, of each interval in turn.
/// Errors: usage if an interval is not inside [0, length).
Segments take(const Segments& segments, std::span<const Interval> intervals);

/// What a part holds of dim `dim`: rows gathered in the order of `segments`, pads as pads of value
/// 0.
/// Shape: as the argument's but for `dim`, which becomes length(segments).
/// Law: apply(select(a, d, s), x) = np.concatenate of x[begin:begin+size] along d.
/// Errors: usage as the operations.
Layout select(const Layout& layout, int dim, const Segments& segments);
/// select on every dim: `segments[d]` for dim d.
Layout select(const Layout& layout, std::span<const Segments> segments);

}  // namespace weightloom
