// The formats that casts know, in numbers: IEEE-like, and F8_E4M3, which has no infinity.
#pragma once

#include <cstdint>

#include "weightloom/base/dtype.h"

namespace weightloom {

/// One bit of sign, then the exponent, then the mantissa. An exponent of zeros is zero or a
/// subnormal; of ones, infinity (mantissa 0) or NaN. Without infinity, only an exponent and a
/// mantissa of ones are a NaN, and what is too large becomes the largest number.
struct FloatFormat {
  int exponent_bits = 0;     ///< width of the exponent
  int mantissa_bits = 0;     ///< width of the mantissa, without its hidden one
  bool has_infinity = true;  ///< false for F8_E4M3

  /// Width of an element.
  constexpr int bits() const noexcept { return 1 + exponent_bits + mantissa_bits; }
  /// What is taken off the exponent's pattern.
  constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  /// The pattern of +infinity, or of the NaN in its place: patterns below it, less the sign, are
  /// finite; above it they are NaNs.
  constexpr uint64_t infinity() const noexcept {
    if (!has_infinity) return sign_bit() - 1;
    return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  /// What is too large becomes this, less the sign.
  constexpr uint64_t overflow() const noexcept { return infinity() - (has_infinity ? 0 : 1); }
  /// The pattern of a NaN, less the sign.
  constexpr bool is_nan(uint64_t magnitude) const noexcept {
    return magnitude > infinity() || (magnitude == infinity() && !has_infinity);
  }
  /// The bit that is set for negative numbers.
  constexpr uint64_t sign_bit() const noexcept { return uint64_t{1} << (bits() - 1); }
  /// The bit that tells quiet NaNs from signalling ones.
  constexpr uint64_t quiet_bit() const noexcept { return uint64_t{1} << (mantissa_bits - 1); }
};

inline constexpr FloatFormat kF64{11, 52};           ///< IEEE binary64
inline constexpr FloatFormat kF32{8, 23};            ///< IEEE binary32
inline constexpr FloatFormat kF16{5, 10};            ///< IEEE binary16
inline constexpr FloatFormat kBF16{8, 7};            ///< the upper half of binary32
inline constexpr FloatFormat kF8_E5M2{5, 2};         ///< the upper half of binary16
inline constexpr FloatFormat kF8_E4M3{4, 3, false};  ///< up to 448; torch's float8_e4m3fn

/// The format of a dtype.
/// Precondition: has_cast(dtype).
constexpr FloatFormat float_format(DType dtype) noexcept {
  if (dtype == DType::F64) return kF64;
  if (dtype == DType::F32) return kF32;
  if (dtype == DType::F8_E5M2) return kF8_E5M2;
  if (dtype == DType::F8_E4M3) return kF8_E4M3;
  return dtype == DType::F16 ? kF16 : kBF16;
}

}  // namespace weightloom
