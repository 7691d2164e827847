// A small stable hash for names of things (mappings, plans); no defence against intent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// FNV-1a, 64 bits.  Source: Fowler, Noll, Vo; RFC 9923.
constexpr uint64_t fnv1a64(std::string_view text, uint64_t state = 0xcbf29ce484222325) noexcept {
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return state;
}

/// 16 hexadecimal digits.
std::string to_hex(uint64_t value);

}  // namespace weightloom
