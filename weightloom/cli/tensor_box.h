// Where in a tensor a region lies: a box with an interval of each dim, and how a box is drawn.
// Thread safety: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/shape.h"
#include "weightloom/layout/layout.h"
#include "weightloom/layout/segments.h"

namespace weightloom::cli {

/// The smallest box that holds some bytes of a tensor; the last dim counts bytes.
struct Box {
  std::vector<Interval> dims;
  int64_t bytes = 0;  // that are meant: of a box that is meant in part, fewer than it holds

  friend bool operator==(const Box&, const Box&) = default;
  bool is_partial() const noexcept;
};

/// One side of a region: where it begins, and how it moves.
enum class RegionSide { source, target };
/// Of a tensor of `shape`; `point_bytes` is what one point of the region takes on that side.
Box box_of(const Region& region, RegionSide side, int64_t point_bytes, DType dtype,
           const Shape& shape);
/// Boxes of one tensor, those joined that make up a box; more than `most` become one.
std::vector<Box> joined(std::vector<Box> boxes, size_t most);

/// A rectangle of a drawn tensor, in fractions of its width and height: dim 0 runs from left to
/// right, the others from top to bottom, each inside the one before.
struct Patch {
  double left = 0;
  double right = 1;
  double top = 0;
  double bottom = 1;
};
Patch patch_of(const Box& box, DType dtype, const Shape& shape);

/// As NumPy slices it: "[0:2048, :]"; "[]" for a scalar.
std::string slice_text(const Box& box, DType dtype, const Shape& shape);

}  // namespace weightloom::cli
