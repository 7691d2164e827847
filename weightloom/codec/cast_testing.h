// For tests: patterns that are hard to cast, and vectors of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/codec/cast_reference.h"
#include "weightloom/codec/float_format_internal.h"

namespace weightloom::testing {

inline constexpr DType kCastable[] = {DType::F64, DType::F32, DType::F16, DType::BF16};
inline constexpr DType kCastTypes[] = {DType::F64,  DType::F32,     DType::F16,
                                       DType::BF16, DType::F8_E5M2, DType::F8_E4M3};

/// splitmix64.
inline uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// Patterns of `from` at and beside every value of `to`'s kind: with each exponent, mantissas that
/// end in a tie between neighbours in `to`, and a little less and more than it, in both signs.
/// `salt` varies the mantissas.
inline std::vector<uint64_t> hard_patterns(DType from, DType to, uint64_t salt) {
  const FloatFormat source = float_format(from);
  const FloatFormat target = float_format(to);
  std::vector<uint64_t> patterns;
  for (uint64_t exponent = 0; exponent < uint64_t{1} << source.exponent_bits; ++exponent) {
    for (int lost = 0; lost <= source.mantissa_bits; ++lost) {
      const bool is_near = lost + 3 > source.mantissa_bits - target.mantissa_bits;
      if (!is_near) continue;
      const uint64_t tie = lost == 0 ? 0 : uint64_t{1} << (lost - 1);
      const uint64_t ones = (uint64_t{1} << source.mantissa_bits) - 1;
      for (uint64_t kept : {next_random(salt), ~uint64_t{0}, uint64_t{0}, uint64_t{1} << lost}) {
        const uint64_t above = (lost >= 63 ? 0 : (kept >> lost) << lost) & ones;
        for (uint64_t below : {tie - 1, tie, tie + 1}) {
          const uint64_t pattern = (exponent << source.mantissa_bits) | ((above | tie) & ones);
          const uint64_t moved = pattern - tie + below;
          patterns.push_back(moved & (source.sign_bit() - 1));
          patterns.push_back(patterns.back() | source.sign_bit());
        }
      }
    }
  }
  return patterns;
}

inline std::vector<uint64_t> random_patterns(DType from, size_t count, uint64_t seed) {
  const FloatFormat source = float_format(from);
  std::vector<uint64_t> patterns;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t draw = next_random(seed);
    patterns.push_back(draw >> (64 - source.bits()));
    if (draw % 4 != 0) continue;  // every fourth again in the range that narrower types have
    const uint64_t exponent = static_cast<uint64_t>(source.bias()) - 28 + next_random(seed) % 48;
    const uint64_t mantissa = patterns.back() & ((uint64_t{1} << source.mantissa_bits) - 1);
    if (source.exponent_bits > 5) patterns.push_back((exponent << source.mantissa_bits) | mantissa);
  }
  return patterns;
}

/// All 65536 of a type of 16 bits, or all 256 of one of 8.
inline std::vector<uint64_t> all_patterns(DType dtype) {
  std::vector<uint64_t> patterns(size_t{1} << bits(dtype));
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
  return patterns;
}

inline std::vector<std::byte> packed(DType dtype, const std::vector<uint64_t>& patterns) {
  const auto width = static_cast<size_t>(bits(dtype) / 8);
  std::vector<std::byte> bytes(patterns.size() * width);
  for (size_t i = 0; i < patterns.size(); ++i) {
    std::memcpy(bytes.data() + i * width, &patterns[i], width);
  }
  return bytes;
}

}  // namespace weightloom::testing
