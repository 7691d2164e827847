#include <cstring>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/code_unpack_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/code_unpack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Loops that compilers make vectors of. Bytes may alias anything, which would keep them from it:
// hence __restrict.
HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

void low_first(const std::byte* __restrict in, int64_t bytes, uint8_t* __restrict out) {
  for (int64_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<uint8_t>(in[i]);
    out[2 * i] = byte & 15;
    out[2 * i + 1] = byte >> 4;
  }
}

void high_first(const std::byte* __restrict in, int64_t bytes, uint8_t* __restrict out) {
  for (int64_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<uint8_t>(in[i]);
    out[2 * i] = byte >> 4;
    out[2 * i + 1] = byte & 15;
  }
}

/// Four nibbles of 16 bits, each in 16 of 64 bits.
HWY_INLINE uint64_t nibbles_apart(uint64_t nibbles) {
  const uint64_t bytes = (nibbles | (nibbles << 24)) & 0x000000ff000000ffU;
  return (bytes | (bytes << 12)) & 0x000f000f000f000fU;
}

void awq_words(const std::byte* __restrict in, int64_t words, uint8_t* __restrict out) {
  for (int64_t i = 0; i < words; ++i) {
    // The lower half is columns 0, 2, 4, 6, the upper one 1, 3, 5, 7.
    uint32_t word = 0;
    std::memcpy(&word, in + 4 * i, sizeof(word));
    const uint64_t columns = nibbles_apart(word & 0xffff) | (nibbles_apart(word >> 16) << 8);
    std::memcpy(out + 8 * i, &columns, sizeof(columns));
  }
}

void all_fields(const std::byte* __restrict in, int64_t words, int width, uint8_t* __restrict out) {
  const int64_t fields = 32 / width;
  const uint32_t mask = (uint32_t{1} << width) - 1;
  for (int64_t place = 0; place < fields; ++place) {
    for (int64_t i = 0; i < words; ++i) {
      uint32_t word = 0;
      std::memcpy(&word, in + 4 * i, sizeof(word));
      out[fields * i + place] = static_cast<uint8_t>((word >> (place * width)) & mask);
    }
  }
}

void one_field(const std::byte* __restrict in, int64_t words, int width, int64_t place,
               uint8_t* __restrict out) {
  const uint32_t mask = (uint32_t{1} << width) - 1;
  const auto shift = static_cast<int>(place) * width;
  for (int64_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, in + 4 * i, sizeof(word));
    out[i] = static_cast<uint8_t>((word >> shift) & mask);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(low_first);
HWY_EXPORT(high_first);
HWY_EXPORT(awq_words);
HWY_EXPORT(all_fields);
HWY_EXPORT(one_field);

}  // namespace

void unpack_low_first(const std::byte* in, int64_t bytes, uint8_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(low_first)(in, bytes, out);
}

void unpack_high_first(const std::byte* in, int64_t bytes, uint8_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(high_first)(in, bytes, out);
}

void unpack_words(const BlockCodec& codec, const std::byte* in, int64_t words,
                  uint8_t* out) noexcept {
  if (codec.format == BlockFormat::awq) {
    HWY_DYNAMIC_DISPATCH(awq_words)(in, words, out);
  } else if (codec.bits == 4) {
    unpack_low_first(in, 4 * words, out);
  } else {
    HWY_DYNAMIC_DISPATCH(all_fields)(in, words, codec.bits, out);
  }
}

void pick_fields(const std::byte* in, int64_t words, int width, int64_t place,
                 uint8_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(one_field)(in, words, width, place, out);
}

}  // namespace weightloom
#endif
