// Overflow-checked 64-bit arithmetic for numbers that come from input.
#pragma once

#include <cstdint>
#include <optional>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) noexcept {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) noexcept {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }
constexpr int64_t round_up(int64_t a, int64_t multiple) noexcept {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace weightloom
