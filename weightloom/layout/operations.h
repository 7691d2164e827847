// Operations: Layouts in, Layouts out, so composing is calling.
//
// Each is numpy's operation of that name on index maps: apply(op(a), data) == np.op(apply(a,
// data)), where apply(layout, data) gathers the elements. All throw usage for a dim, size or shape
// that does not fit, with the numbers, and plan when more than kMaxRegions regions would arise.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/layout/layout.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The tensor itself: element i comes from element i of `source`.
Layout identity(SourceId source, Shape shape);
/// A tensor of pads.
Layout constant(int64_t pad_value, Shape shape);

/// Shape: any of equal size. Offsets are linear, so only the shape changes.
Layout reshape(Layout layout, Shape shape);
/// Rows [begin, end) of `dim`.
Layout slice(const Layout& layout, int dim, int64_t begin, int64_t end);
/// np.transpose: dim i of the result is dim order[i] of the argument.
Layout permute(const Layout& layout, std::span<const int> order);
/// np.swapaxes.
Layout transpose(const Layout& layout, int dim0, int dim1);
/// Shape: equal but for `dim`, whose sizes add.
Layout concat(std::span<const Layout> parts, int dim);
/// Shape: all equal; a new dim of size parts.size() before `dim` (which may be the rank).
Layout stack(std::span<const Layout> parts, int dim);
/// The inverse of stack: dim disappears.
std::vector<Layout> unstack(const Layout& layout, int dim);
/// Consecutive parts of the given sizes, which add up to the dim.
std::vector<Layout> split(const Layout& layout, int dim, std::span<const int64_t> sizes);
/// De-interleaves a dim of n·ways: out[j·n + i] = in[ways·i + j]. inverse: out[ways·i + j] = in[j·n
/// + i].
Layout interleave(const Layout& layout, int dim, int64_t ways, bool inverse);
/// `before` and `after` rows of `pad_value` around `dim`.
Layout pad(const Layout& layout, int dim, int64_t before, int64_t after, int64_t pad_value = 0);

}  // namespace weightloom
