// Overflow-checked 64-bit arithmetic for numbers that come from input.
#pragma once

#include <cstdint>
#include <optional>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// a + b; nothing if that is no int64.
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) noexcept {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// a * b; nothing if that is no int64.
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) noexcept {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// a / b, rounded up, for a >= 0 and b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }
/// The least multiple of `multiple` that is not below `a`.
constexpr int64_t round_up(int64_t a, int64_t multiple) noexcept {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace weightloom
