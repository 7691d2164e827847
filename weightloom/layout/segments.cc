#include "weightloom/layout/segments.h"

#include <algorithm>
#include <utility>

#include "weightloom/layout/operation_support_internal.h"
#include "weightloom/layout/operations.h"

namespace weightloom {
namespace {

/// The part of a segment at [begin, end) of it.
Segment within(const Segment& segment, int64_t begin, int64_t end) {
  return {segment.is_pad ? 0 : segment.begin + begin, end - begin, segment.is_pad};
}

bool is_whole(const Segments& segments, int64_t rows) {
  if (rows == 0) return segments.empty();
  return segments.size() == 1 && segments[0] == Segment{0, rows, false};
}

Layout rows_for(const Layout& layout, int dim, const Segment& segment) {
  if (!segment.is_pad) return slice(layout, dim, segment.begin, segment.begin + segment.size);
  Shape shape = layout.shape();
  shape[static_cast<size_t>(dim)] = segment.size;
  return constant(0, std::move(shape));
}

}  // namespace

Segments whole_dim(int64_t size) {
  if (size < 0) misuse("a dim of {} elements", size);
  return size == 0 ? Segments{} : Segments{{0, size, false}};
}

int64_t length(const Segments& segments) noexcept {
  int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.size;
  return sum;
}

void append_segment(Segments& segments, const Segment& segment) {
  if (segment.size == 0) return;
  if (!segments.empty()) {
    Segment& last = segments.back();
    const bool goes_on = segment.is_pad || last.begin + last.size == segment.begin;
    if (last.is_pad == segment.is_pad && goes_on) {
      last.size += segment.size;
      return;
    }
  }
  segments.push_back(segment);
}

Segments take(const Segments& segments, std::span<const Interval> intervals) {
  Segments taken;
  const int64_t rows = length(segments);
  for (const Interval& interval : intervals) {
    if (interval.begin < 0 || interval.begin > interval.end || interval.end > rows) {
      misuse("take: rows [{}, {}) are not in [0, {})", interval.begin, interval.end, rows);
    }
    int64_t at = 0;
    for (const Segment& segment : segments) {
      const int64_t begin = std::max(interval.begin - at, int64_t{0});
      const int64_t end = std::min(interval.end - at, segment.size);
      if (begin < end) append_segment(taken, within(segment, begin, end));
      at += segment.size;
      if (at >= interval.end) break;
    }
  }
  return taken;
}

Layout select(const Layout& layout, int dim, const Segments& segments) {
  const size_t d = checked_dim(dim, layout.shape().size(), "select");
  if (is_whole(segments, layout.shape()[d])) return layout;
  if (segments.empty()) return slice(layout, dim, 0, 0);
  std::vector<Layout> parts;
  parts.reserve(segments.size());
  for (const Segment& segment : segments) parts.push_back(rows_for(layout, dim, segment));
  return parts.size() == 1 ? std::move(parts[0]) : concat(parts, dim);
}

Layout select(const Layout& layout, std::span<const Segments> segments) {
  if (std::ssize(segments) != layout.rank()) {
    misuse("select: {} lists of segments for {} dims", segments.size(), layout.rank());
  }
  Layout selected = layout;
  for (int dim = 0; dim < layout.rank(); ++dim) {
    selected = select(selected, dim, segments[static_cast<size_t>(dim)]);
  }
  return selected;
}

}  // namespace weightloom
