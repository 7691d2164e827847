// The reference for casts: one value at a time, by integer arithmetic on sign, mantissa and
// exponent, in the plainest way. The oracle that the vectors of cast.h must equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// The pattern in `to` of the value that has pattern `bits` in `from`.
/// Law: as cast().   Precondition: has_cast of both.
uint64_t cast_bits(DType from, DType to, uint64_t bits) noexcept;

/// As cast().
int64_t cast_reference(DType from, DType to, const std::byte* in, std::byte* out,
                       int64_t count) noexcept;

}  // namespace weightloom
