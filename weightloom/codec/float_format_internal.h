// The IEEE-like formats that casts know, in numbers.
#pragma once

#include <cstdint>

#include "weightloom/base/dtype.h"

namespace weightloom {

/// One bit of sign, then the exponent, then the mantissa. An exponent of ones is infinity (mantissa
/// 0) or NaN; of zeros, zero or a subnormal.
struct FloatFormat {
  int exponent_bits = 0;  ///< width of the exponent
  int mantissa_bits = 0;  ///< width of the mantissa, without its hidden one

  /// Width of an element.
  constexpr int bits() const noexcept { return 1 + exponent_bits + mantissa_bits; }
  /// What is taken off the exponent's pattern.
  constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  /// The pattern of +infinity; patterns above it, less the sign, are NaNs.
  constexpr uint64_t infinity() const noexcept {
    return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  /// The bit that is set for negative numbers.
  constexpr uint64_t sign_bit() const noexcept { return uint64_t{1} << (bits() - 1); }
  /// The bit that tells quiet NaNs from signalling ones.
  constexpr uint64_t quiet_bit() const noexcept { return uint64_t{1} << (mantissa_bits - 1); }
};

inline constexpr FloatFormat kF64{11, 52};  ///< IEEE binary64
inline constexpr FloatFormat kF32{8, 23};   ///< IEEE binary32
inline constexpr FloatFormat kF16{5, 10};   ///< IEEE binary16
inline constexpr FloatFormat kBF16{8, 7};   ///< the upper half of binary32

/// The format of a dtype.
/// Precondition: is_castable(dtype).
constexpr FloatFormat float_format(DType dtype) noexcept {
  if (dtype == DType::F64) return kF64;
  if (dtype == DType::F32) return kF32;
  return dtype == DType::F16 ? kF16 : kBF16;
}

}  // namespace weightloom
