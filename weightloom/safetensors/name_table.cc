#include "weightloom/safetensors/name_table.h"

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

uint64_t word_at(std::string_view name, size_t at, size_t size) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, name.data() + at, size);
  return word;
}

}  // namespace

uint64_t NameTable::hash_of(std::string_view name, uint64_t seed) noexcept {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  uint64_t hash = seed ^ name.size();
  size_t at = 0;
  for (; at + 8 <= name.size(); at += 8) hash = fold(hash ^ word_at(name, at, 8), kFactor);
  if (at < name.size()) hash = fold(hash ^ word_at(name, at, name.size() - at), kFactor);
  return fold(hash, seed | 1);
}

uint64_t NameTable::random_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  return seed;
}

}  // namespace weightloom
