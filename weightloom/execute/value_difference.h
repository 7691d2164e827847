// How two runs of elements differ, by value.
// Thread safety: values, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// What a comparison counted. Two elements have one value if they stand for the same number, or are
/// both NaN. Indexes are linear; -1: there is none.
struct ValueDifference {
  int64_t elements = 0;        ///< compared
  int64_t differing = 0;       ///< whose values differ, NaN against a number included
  int64_t other_bits = 0;      ///< of one dtype and value in other bits: signed zeros, NaNs
  int64_t nan_only_in_a = 0;   ///< NaN in A, a number in B
  int64_t nan_only_in_b = 0;   ///< a number in A, NaN in B
  int64_t first_index = -1;    ///< of those that differ
  double max_abs = 0;          ///< largest |a - b| where both are numbers; may be infinite
  int64_t max_abs_index = -1;  ///< where that is, the first of equals

  friend bool operator==(const ValueDifference&, const ValueDifference&) = default;
};

/// Compares element by element. Equal dtypes with equal bytes need no element work.
/// Shape:  a and b hold the same number of elements.
/// Units:  integers of one dtype are compared exactly; all else as F64.
/// Errors: unsupported if a dtype has no values (has_values of codec/values.h).
ValueDifference compare_values(DType dtype_a, std::span<const std::byte> a, DType dtype_b,
                               std::span<const std::byte> b);

/// As compare_values of all elements, from those before `offset` and those from it on.
ValueDifference joined(const ValueDifference& before, const ValueDifference& after, int64_t offset);

}  // namespace weightloom
