#include "weightloom/codec/cast_reference.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "weightloom/codec/float_format_internal.h"

namespace weightloom {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they are stored");

/// |value| = mantissa · 2^exponent.
struct Magnitude {
  uint64_t mantissa = 0;
  int exponent = 0;
};

Magnitude magnitude_of(const FloatFormat& format, uint64_t pattern) {
  const uint64_t fraction = pattern & ((uint64_t{1} << format.mantissa_bits) - 1);
  const auto biased = static_cast<int>(pattern >> format.mantissa_bits);
  const int exponent = std::max(biased, 1) - format.bias() - format.mantissa_bits;
  return {biased == 0 ? fraction : fraction | (uint64_t{1} << format.mantissa_bits), exponent};
}

/// value / 2^places, rounded to the nearest integer, ties to even.
uint64_t divided(uint64_t value, int places) {
  if (places <= 0) return value << -places;
  if (places > 63) return 0;  // mantissas have 53 bits: less than half
  const uint64_t quotient = value >> places;
  const uint64_t rest = value - (quotient << places);
  const uint64_t half = uint64_t{1} << (places - 1);
  const bool up = rest > half || (rest == half && quotient % 2 == 1);
  return quotient + (up ? 1 : 0);
}

/// The pattern, less the sign, of the nearest value that the format has.
uint64_t nearest(const FloatFormat& format, const Magnitude& value) {
  if (value.mantissa == 0) return 0;
  const int least_step = 1 - format.bias() - format.mantissa_bits;
  const int leading = value.exponent + static_cast<int>(std::bit_width(value.mantissa)) - 1;
  const int step = std::max(leading - format.mantissa_bits, least_step);
  const uint64_t steps = divided(value.mantissa, step - value.exponent);
  const uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  if (steps < hidden) return steps;  // subnormal
  const uint64_t biased = static_cast<uint64_t>(step - least_step) + 1;
  return std::min((biased << format.mantissa_bits) + (steps - hidden), format.overflow());
}

uint64_t nan_of(const FloatFormat& from, const FloatFormat& to, uint64_t pattern) {
  if (to.bits() == 8) return to.sign_bit() - 1;
  const uint64_t payload = pattern - from.infinity();
  const int places = to.mantissa_bits - from.mantissa_bits;
  const uint64_t kept = places >= 0 ? payload << places : payload >> -places;
  return to.infinity() | to.quiet_bit() | kept;
}

int64_t bytes_of(DType dtype) { return bits(dtype) / 8; }

bool is_finite(DType dtype, uint64_t pattern) {
  const FloatFormat format = float_format(dtype);
  return (pattern & (format.sign_bit() - 1)) < format.infinity();
}

}  // namespace

uint64_t cast_bits(DType from, DType to, uint64_t pattern) noexcept {
  if (from == to) return pattern;
  const FloatFormat source = float_format(from);
  const FloatFormat target = float_format(to);
  const uint64_t sign = (pattern & source.sign_bit()) != 0 ? target.sign_bit() : 0;
  const uint64_t rest = pattern & (source.sign_bit() - 1);
  if (source.is_nan(rest)) return sign | nan_of(source, target, rest);
  if (rest == source.infinity()) return sign | target.overflow();
  return sign | nearest(target, magnitude_of(source, rest));
}

int64_t cast_reference(DType from, DType to, const std::byte* in, std::byte* out,
                       int64_t count) noexcept {
  int64_t lost = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t pattern = 0;
    std::memcpy(&pattern, in + i * bytes_of(from), static_cast<size_t>(bytes_of(from)));
    const uint64_t result = cast_bits(from, to, pattern);
    std::memcpy(out + i * bytes_of(to), &result, static_cast<size_t>(bytes_of(to)));
    lost += is_finite(from, pattern) && !is_finite(to, result) ? 1 : 0;
  }
  return lost;
}

}  // namespace weightloom
