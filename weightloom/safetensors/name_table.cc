#include "weightloom/safetensors/name_table.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace weightloom {
namespace {

__extension__ using Wide = unsigned __int128;

/// Both halves of the product, folded: every bit of the result depends on every bit of both
/// factors.
uint64_t fold(uint64_t a, uint64_t b) noexcept {
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t NameTable::hash_of(std::string_view name, uint64_t seed) noexcept {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  uint64_t hash = seed ^ name.size();
  for (size_t at = 0; at < name.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, name.data() + at, std::min<size_t>(8, name.size() - at));
    hash = fold(hash ^ word, kFactor);
  }
  return fold(hash, seed | 1);
}

uint64_t NameTable::random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace weightloom
