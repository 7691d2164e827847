// Casts between F64, F32, F16, BF16, F8_E5M2 and F8_E4M3, on spans of memory.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// F64, F32, F16 and BF16: the dtypes of numbers that stand for themselves, which a caller may ask
/// to be stored as another. Integers and BOOL are not, nor F8, which is nothing without a scale.
bool is_castable(DType dtype) noexcept;

/// The dtypes that cast() leads from and to: those, F8_E5M2 and F8_E4M3.
bool has_cast(DType dtype) noexcept;

/// Casts `count` elements of `from` at `in` to `to` at `out`, and gives how many were finite and
/// are infinite or NaN now.
/// Units:  in and out need no alignment; they do not overlap.
/// Law:    each result is the value rounded once, to nearest, ties to even: F64 → F16 does not go
///         through F32. Signed zeros and subnormals are values like others, whatever the
///         processor's flush-to-zero flags say. A NaN stays a NaN of its sign, made quiet, with the
///         top bits of its payload. Equal dtypes: the bytes are copied, signalling NaNs too.
///         To F8_E4M3, which has no infinity, whatever is larger than 448 becomes 448, infinities
///         too; the NaNs of F8 have a mantissa of ones.
/// Source: of F8, `.to(float8_e4m3fn)` and `.to(float8_e5m2)` of torch 2.13, which rounds F64 twice;
///         earlier releases made NaN of what is larger than 448.
/// Precondition: has_cast of both; the rounding mode is to nearest, as programs start.
int64_t cast(DType from, DType to, const std::byte* in, std::byte* out, int64_t count) noexcept;

}  // namespace weightloom
