// Casts between F64, F32, F16 and BF16, on spans of memory.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// F64, F32, F16 and BF16: the dtypes that a cast leads from and to. Integers, BOOL and types under
/// 16 bits are not.
bool is_castable(DType dtype) noexcept;

/// Casts `count` elements of `from` at `in` to `to` at `out`, and gives how many were finite and
/// are infinite now.
/// Units:  in and out need no alignment; they do not overlap.
/// Law:    each result is the value rounded once, to nearest, ties to even: F64 → F16 does not go
///         through F32. Signed zeros and subnormals are values like others, whatever the
///         processor's flush-to-zero flags say. A NaN stays a NaN of its sign, made quiet, with the
///         top bits of its payload. Equal dtypes: the bytes are copied, signalling NaNs too.
/// Precondition: both are castable; the rounding mode is to nearest, as programs start.
int64_t cast(DType from, DType to, const std::byte* in, std::byte* out, int64_t count) noexcept;

}  // namespace weightloom
