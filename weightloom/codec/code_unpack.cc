#include <cstring>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/code_unpack_internal.h"

// Bytes may alias anything, which would keep loops from becoming vectors: hence __restrict.
namespace weightloom {

void unpack_low_first(const std::byte* __restrict in, int64_t bytes,
                      uint8_t* __restrict out) noexcept {
  for (int64_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<uint8_t>(in[i]);
    out[2 * i] = byte & 15;
    out[2 * i + 1] = byte >> 4;
  }
}

void unpack_high_first(const std::byte* __restrict in, int64_t bytes,
                       uint8_t* __restrict out) noexcept {
  for (int64_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<uint8_t>(in[i]);
    out[2 * i] = byte >> 4;
    out[2 * i + 1] = byte & 15;
  }
}

void unpack_awq(const std::byte* __restrict in, int64_t words, uint8_t* __restrict out) noexcept {
  for (int64_t i = 0; i < words; ++i) {
    // The lower two bytes are columns 0, 2, 4, 6, the upper two 1, 3, 5, 7.
    for (int64_t k = 0; k < 2; ++k) {
      const auto even = std::to_integer<uint8_t>(in[4 * i + k]);
      const auto odd = std::to_integer<uint8_t>(in[4 * i + 2 + k]);
      uint8_t* to = out + 8 * i + 4 * k;
      to[0] = even & 15;
      to[1] = odd & 15;
      to[2] = even >> 4;
      to[3] = odd >> 4;
    }
  }
}

void unpack_fields(const std::byte* in, int64_t words, int width, uint8_t* out) noexcept {
  const int64_t fields = 32 / width;
  for (int64_t place = 0; place < fields; ++place) {
    for (int64_t i = 0; i < words; ++i) {
      uint32_t word = 0;
      std::memcpy(&word, in + 4 * i, sizeof(word));
      const uint32_t mask = (uint32_t{1} << width) - 1;
      out[fields * i + place] = static_cast<uint8_t>((word >> (place * width)) & mask);
    }
  }
}

void pick_fields(const std::byte* __restrict in, int64_t words, int width, int64_t place,
                 uint8_t* __restrict out) noexcept {
  const uint32_t mask = (uint32_t{1} << width) - 1;
  const auto shift = static_cast<int>(place) * width;
  for (int64_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, in + 4 * i, sizeof(word));
    out[i] = static_cast<uint8_t>((word >> shift) & mask);
  }
}

}  // namespace weightloom
