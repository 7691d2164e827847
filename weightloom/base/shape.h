// Shapes: sizes of dimensions, outermost first; [] is one element, a 0 anywhere is none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Sizes of the dimensions, outermost first; none for a scalar.
using Shape = std::vector<int64_t>;

/// Number of elements; nothing if a dim is negative or the product (of the non-zero dims too, so
/// that partial products are safe) exceeds int64.
std::optional<int64_t> checked_elements(std::span<const int64_t> shape) noexcept;
/// Number of elements of a shape already checked.
int64_t elements(std::span<const int64_t> shape) noexcept;
/// Row-major strides in elements: strides([2, 3, 4]) = [12, 4, 1].
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);
/// Size in bytes; nothing on overflow or when the elements do not fill whole bytes.
std::optional<int64_t> checked_bytes(DType dtype, std::span<const int64_t> shape) noexcept;
/// "[2, 3]".
std::string to_string(std::span<const int64_t> shape);

}  // namespace weightloom
