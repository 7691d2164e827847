// Rows of finite numbers become codes, on vectors of whatever the processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightloom {

/// The largest pattern, less the sign, of `count` F32 at `in`, which needs no alignment.
uint32_t largest_pattern(const std::byte* in, int64_t count) noexcept;

/// value × scale, cut to ±most, one F32 each. Precondition: values and scale are finite.
void scale_row(const std::byte* in, int64_t count, float scale, float most, float* out) noexcept;

/// The 4-bit floats of scaled values, one to a byte: rounded to nearest even, cut to ±6.
void e2m1_codes(const float* scaled, int64_t count, uint8_t* out) noexcept;

}  // namespace weightloom
