#include <algorithm>
#include <cstring>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/code_unpack_internal.h"
#include "weightloom/codec/gguf_reference_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/gguf_unpack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// gguf_reference_internal.h tells what lies where.
HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE uint8_t byte_at(const std::byte* in, int64_t i) { return static_cast<uint8_t>(in[i]); }

HWY_INLINE uint32_t word_at(const std::byte* in) {
  uint32_t word = 0;
  std::memcpy(&word, in, sizeof(word));
  return word;
}

/// Vectors of bytes, no longer than the shortest run of them.
template <int kRun>
using Bytes = hn::CappedTag<uint8_t, kRun>;

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const std::byte* in) {
  return hn::LoadU(d, reinterpret_cast<const uint8_t*>(in));
}

/// Low nibbles of kRun bytes, then their high ones.
template <int kRun>
HWY_INLINE void split_nibbles(const std::byte* in, uint8_t* out) {
  const Bytes<kRun> d;
  for (size_t j = 0; j < kRun; j += hn::Lanes(d)) {
    const auto bytes = load(d, in + j);
    hn::StoreU(hn::And(bytes, hn::Set(d, 15)), d, out + j);
    hn::StoreU(hn::ShiftRight<4>(bytes), d, out + kRun + j);
  }
}

/// 128 bytes hold 4 bits of 256 values, kRun bytes at a time.
template <int kRun>
HWY_INLINE void four_bits(const std::byte* in, uint8_t* out) {
  for (int begin = 0; begin < 128; begin += kRun)
    split_nibbles<kRun>(in + begin, out + int64_t{2} * begin);
}

/// 64 bytes hold 2 bits of 256 values: of 32 bytes the lowest, then the next.
HWY_INLINE void two_bits(const std::byte* in, uint8_t* out) {
  const Bytes<32> d;
  const auto three = hn::Set(d, 3);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      const auto bytes = load(d, in + 32 * half + j);
      uint8_t* to = out + 128 * half + j;
      hn::StoreU(hn::And(bytes, three), d, to);
      hn::StoreU(hn::And(hn::ShiftRight<2>(bytes), three), d, to + 32);
      hn::StoreU(hn::And(hn::ShiftRight<4>(bytes), three), d, to + 64);
      hn::StoreU(hn::ShiftRight<6>(bytes), d, to + 96);
    }
  }
}

/// Bit b of byte j of 32 belongs to value 32·b + j: set, it raises the code by `weight`.
HWY_INLINE void add_bit_planes(const std::byte* in, uint8_t weight, uint8_t* codes) {
  const Bytes<32> d;
  for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
    const auto bytes = load(d, in + j);
    for (size_t plane = 0; plane < 8; ++plane) {
      uint8_t* to = codes + 32 * plane + j;
      const auto is_set = hn::TestBit(bytes, hn::Set(d, static_cast<uint8_t>(1U << plane)));
      const auto raise = hn::IfThenElseZero(is_set, hn::Set(d, weight));
      hn::StoreU(hn::Add(hn::LoadU(d, to), raise), d, to);
    }
  }
}

/// Bits 4 and 5 are put over 256 codes.
HWY_INLINE void add_upper_bits(const uint8_t* upper, uint8_t* codes) {
  const Bytes<32> d;
  for (size_t j = 0; j < 256; j += hn::Lanes(d)) {
    const auto moved = hn::ShiftLeft<4>(hn::LoadU(d, upper + j));
    hn::StoreU(hn::Or(hn::LoadU(d, codes + j), moved), d, codes + j);
  }
}

/// Of 256 codes.
HWY_INLINE void subtract(uint8_t zero, uint8_t* codes) {
  const Bytes<32> d;
  for (size_t j = 0; j < 256; j += hn::Lanes(d)) {
    hn::StoreU(hn::Sub(hn::LoadU(d, codes + j), hn::Set(d, zero)), d, codes + j);
  }
}

/// A byte for each of eight bits: 1 if it is set, else 0.
HWY_INLINE uint64_t bits_apart(uint8_t bits) {
  const uint64_t own_bits = (bits * 0x0101010101010101U) & 0x8040201008040201U;
  return ((own_bits + 0x7f7f7f7f7f7f7f7fU) >> 7) & 0x0101010101010101U;
}

/// Puts `weight` over those of 32 nibbles whose bit, of 32, differs from those of `clear`.
HWY_INLINE void put_over_nibbles(const std::byte* in, uint8_t clear, uint8_t weight,
                                 uint8_t* codes) {
  for (int j = 0; j < 4; ++j, codes += 8) {
    const auto raised = static_cast<uint8_t>(byte_at(in, j) ^ clear);
    uint64_t nibbles = 0;
    std::memcpy(&nibbles, codes, sizeof(nibbles));
    nibbles |= bits_apart(raised) * weight;
    std::memcpy(codes, &nibbles, sizeof(nibbles));
  }
}

// Blocks of 32 values: their codes, from what follows the F16.

HWY_INLINE void nibbles_codes(const std::byte* in, uint8_t* codes) { split_nibbles<16>(in, codes); }
HWY_INLINE void q5_0_codes(const std::byte* in, uint8_t* codes) {
  split_nibbles<16>(in + 4, codes);
  // Less 16: with the fifth bit what the nibble is, without it so much below.
  put_over_nibbles(in, 0xff, 0xf0, codes);
}
HWY_INLINE void q5_1_codes(const std::byte* in, uint8_t* codes) {
  split_nibbles<16>(in + 4, codes);
  put_over_nibbles(in, 0, 16, codes);
}
HWY_INLINE void q8_0_codes(const std::byte* in, uint8_t* codes) { std::memcpy(codes, in, 32); }

/// Of blocks `step` bytes apart the F16 at each one's begin, in F32.
void gather_halves(const std::byte* in, int64_t blocks, int64_t step, float* out) {
  constexpr int64_t kSome = 64;
  uint16_t halves[kSome];
  for (int64_t begin = 0; begin < blocks; begin += kSome) {
    const int64_t count = std::min(kSome, blocks - begin);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&halves[i], in + (begin + i) * step, sizeof(uint16_t));
    }
    cast(DType::F16, DType::F32, reinterpret_cast<const std::byte*>(halves),
         reinterpret_cast<std::byte*>(out + begin), count);
  }
}

template <void (*kCodes)(const std::byte*, uint8_t*)>
void blocks_of_32(BlockFormat format, const std::byte* in, int64_t blocks, const GgufRow& out) {
  const int64_t step = gguf_block(format).bytes;
  const bool has_offsets = format_has_offsets(format);
  gather_halves(in, blocks, step, out.scales);
  if (has_offsets) gather_halves(in + 2, blocks, step, out.offsets);
  const std::byte* rest = in + (has_offsets ? 4 : 2);
  for (int64_t i = 0; i < blocks; ++i) kCodes(rest + i * step, out.codes + 32 * i);
}

/// The F16 of a super-block, in F32.
struct Halves {
  float d = 0;
  float least = 0;
};

HWY_INLINE void q2_k_block(const std::byte* in, const Halves& halves, const GgufRow& out) {
  two_bits(in + 16, out.codes);
  for (int part = 0; part < 16; ++part) {
    const uint8_t both = byte_at(in, part);
    out.scales[part] = halves.d * static_cast<float>(both & 15);
    out.offsets[part] = -(halves.least * static_cast<float>(both >> 4));
  }
}

HWY_INLINE void q3_k_block(const std::byte* in, const Halves& halves, const GgufRow& out) {
  two_bits(in + 32, out.codes);
  add_bit_planes(in, 4, out.codes);
  subtract(4, out.codes);
  for (int part = 0; part < 16; ++part) {
    const int low = (byte_at(in, 96 + part % 8) >> (part / 8 * 4)) & 15;
    const int high = (byte_at(in, 104 + part % 4) >> (part / 4 * 2)) & 3;
    out.scales[part] = halves.d * static_cast<float>((low | (high << 4)) - 32);
  }
}

/// `factor` × each of the bytes of two words.
HWY_INLINE void times_bytes(float factor, uint32_t first, uint32_t last, float* __restrict out) {
  uint8_t bytes[8];
  std::memcpy(bytes, &first, sizeof(first));
  std::memcpy(bytes + 4, &last, sizeof(last));
  for (int i = 0; i < 8; ++i) out[i] = factor * static_cast<float>(bytes[i]);
}

/// Scales and minimums of q4_k and q5_k: of each the first four in the lower 6 bits of a byte; the
/// upper 2 bits of those complete nibbles for the last four.
HWY_INLINE void scales_of_eight(const std::byte* in, const Halves& halves, const GgufRow& out) {
  const uint32_t scales = word_at(in + 4);
  const uint32_t minimums = word_at(in + 8);
  const uint32_t nibbles = word_at(in + 12);
  const auto above = [](uint32_t word) { return (word >> 2) & 0x30303030; };
  times_bytes(halves.d, scales & 0x3f3f3f3f, (nibbles & 0x0f0f0f0f) | above(scales), out.scales);
  times_bytes(-halves.least, minimums & 0x3f3f3f3f, ((nibbles >> 4) & 0x0f0f0f0f) | above(minimums),
              out.offsets);
}

HWY_INLINE void q4_k_block(const std::byte* in, const Halves& halves, const GgufRow& out) {
  scales_of_eight(in, halves, out);
  four_bits<32>(in + 16, out.codes);
}

HWY_INLINE void q5_k_block(const std::byte* in, const Halves& halves, const GgufRow& out) {
  scales_of_eight(in, halves, out);
  four_bits<32>(in + 48, out.codes);
  add_bit_planes(in + 16, 16, out.codes);
}

HWY_INLINE void q6_k_block(const std::byte* in, const Halves& halves, const GgufRow& out) {
  uint8_t upper[256];
  four_bits<64>(in, out.codes);
  two_bits(in + 128, upper);
  add_upper_bits(upper, out.codes);
  subtract(32, out.codes);
  for (int part = 0; part < 16; ++part) {
    const auto scale = static_cast<float>(static_cast<int8_t>(byte_at(in, 192 + part)));
    out.scales[part] = halves.d * scale;
  }
}

/// kLeast: where `least` lies; that of formats without offsets is not used.
template <void (*kBlock)(const std::byte*, const Halves&, const GgufRow&), int kD, int kLeast = kD>
void blocks_of_256(BlockFormat format, const std::byte* in, int64_t blocks, const GgufRow& out) {
  constexpr int64_t kSome = 8;
  const int64_t step = gguf_block(format).bytes;
  const int64_t parts = 256 / values_of_part(format);
  float d[kSome];
  float least[kSome];
  for (int64_t begin = 0; begin < blocks; begin += kSome) {
    const int64_t count = std::min(kSome, blocks - begin);
    gather_halves(in + begin * step + kD, count, step, d);
    gather_halves(in + begin * step + kLeast, count, step, least);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = begin + i;
      kBlock(in + at * step, {d[i], least[i]},
             {out.codes + 256 * at, out.scales + parts * at, out.offsets + parts * at});
    }
  }
}

void unpack_any(BlockFormat format, const std::byte* in, int64_t blocks, const GgufRow& out) {
  switch (format) {
    case BlockFormat::q4_0:
    case BlockFormat::q4_1:
    case BlockFormat::iq4_nl:
      return blocks_of_32<nibbles_codes>(format, in, blocks, out);
    case BlockFormat::q5_0:
      return blocks_of_32<q5_0_codes>(format, in, blocks, out);
    case BlockFormat::q5_1:
      return blocks_of_32<q5_1_codes>(format, in, blocks, out);
    case BlockFormat::q8_0:
      return blocks_of_32<q8_0_codes>(format, in, blocks, out);
    case BlockFormat::q2_k:
      return blocks_of_256<q2_k_block, 80, 82>(format, in, blocks, out);
    case BlockFormat::q3_k:
      return blocks_of_256<q3_k_block, 108>(format, in, blocks, out);
    case BlockFormat::q4_k:
      return blocks_of_256<q4_k_block, 0, 2>(format, in, blocks, out);
    case BlockFormat::q5_k:
      return blocks_of_256<q5_k_block, 0, 2>(format, in, blocks, out);
    case BlockFormat::q6_k:
      return blocks_of_256<q6_k_block, 208>(format, in, blocks, out);
    default:
      return;  // not of GGUF
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(unpack_any);

constexpr float kIntegers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr float kEightLess[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float kIq4Numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace

bool format_has_offsets(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::q4_1:
    case BlockFormat::q5_1:
    case BlockFormat::q2_k:
    case BlockFormat::q4_k:
    case BlockFormat::q5_k:
      return true;
    default:
      return false;
  }
}

int64_t values_of_part(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::q2_k:
    case BlockFormat::q3_k:
    case BlockFormat::q6_k:
      return 16;
    default:
      return 32;
  }
}

void unpack_gguf(BlockFormat format, const std::byte* in, int64_t blocks,
                 const GgufRow& out) noexcept {
  HWY_DYNAMIC_DISPATCH(unpack_any)(format, in, blocks, out);
}

const float* table_of_nibbles(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::q4_1:
    case BlockFormat::q4_k:
      return kIntegers;
    case BlockFormat::q4_0:
      return kEightLess;
    case BlockFormat::iq4_nl:
      return kIq4Numbers;
    default:
      return nullptr;
  }
}

void numbers_of_nibbles(BlockFormat format, uint8_t* codes, int64_t count) noexcept {
  if (format == BlockFormat::q4_0) {
    for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(codes[i] - 8);
  } else if (format == BlockFormat::iq4_nl) {
    for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(kIq4Values[codes[i]]);
  }
}

}  // namespace weightloom
#endif
