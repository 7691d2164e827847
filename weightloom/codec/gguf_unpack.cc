#include <algorithm>
#include <cstring>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/code_unpack_internal.h"
#include "weightloom/codec/gguf_reference_internal.h"

namespace weightloom {
namespace {

uint8_t byte_at(const std::byte* in, int64_t i) { return std::to_integer<uint8_t>(in[i]); }

float half_at(const std::byte* in) {
  float value = 0;
  cast(DType::F16, DType::F32, in, reinterpret_cast<std::byte*>(&value), 1);
  return value;
}

/// Low nibbles of 16 bytes, then their high ones.
void split_nibbles(const std::byte* __restrict in, uint8_t* __restrict out) {
  for (int64_t j = 0; j < 16; ++j) {
    out[j] = byte_at(in, j) & 15;
    out[16 + j] = byte_at(in, j) >> 4;
  }
}

/// Puts the fifth bits over 32 nibbles.
void add_fifth_bits(const std::byte* __restrict in, uint8_t* __restrict codes) {
  uint32_t high = 0;
  std::memcpy(&high, in, sizeof(high));
  for (int j = 0; j < 32; ++j) codes[j] |= static_cast<uint8_t>(((high >> j) & 1) << 4);
}

void subtract(uint8_t* codes, int64_t count, uint8_t zero) {
  for (int64_t j = 0; j < count; ++j) codes[j] = static_cast<uint8_t>(codes[j] - zero);
}

/// 64 bytes hold 2 bits of 256 values: of 32 bytes the lowest, then the next.
void two_bits(const std::byte* __restrict in, uint8_t* __restrict out) {
  for (int half = 0; half < 2; ++half) {
    for (int stripe = 0; stripe < 4; ++stripe, out += 32) {
      for (int j = 0; j < 32; ++j) {
        out[j] = (byte_at(in, 32 * half + j) >> (2 * stripe)) & 3;
      }
    }
  }
}

/// 128 bytes hold 4 bits of 256 values, `run` bytes at a time: the lower, then the upper.
void four_bits(const std::byte* __restrict in, int run, uint8_t* __restrict out) {
  for (int begin = 0; begin < 128; begin += run, out += 2 * run) {
    for (int j = 0; j < run; ++j) {
      out[j] = byte_at(in, begin + j) & 15;
      out[run + j] = byte_at(in, begin + j) >> 4;
    }
  }
}

/// Bit b of byte j of 32 belongs to value 32·b + j: set, it raises the code by `weight`.
void add_bit_planes(const std::byte* __restrict in, uint8_t weight, uint8_t* __restrict codes) {
  for (int plane = 0; plane < 8; ++plane, codes += 32) {
    for (int j = 0; j < 32; ++j) {
      codes[j] = static_cast<uint8_t>(codes[j] + ((byte_at(in, j) >> plane) & 1) * weight);
    }
  }
}

void codes_of_32(BlockFormat format, const std::byte* in, uint8_t* codes) {
  const bool has_fifth = format == BlockFormat::q5_0 || format == BlockFormat::q5_1;
  const std::byte* rest = in + (format_has_offsets(format) ? 4 : 2);
  if (format == BlockFormat::q8_0) {
    std::memcpy(codes, rest, 32);
    return;
  }
  split_nibbles(rest + (has_fifth ? 4 : 0), codes);
  if (has_fifth) add_fifth_bits(rest, codes);
}

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

void q2_k_block(const std::byte* in, const GgufRow& out) {
  const float d = half_at(in + 80);
  const float least = half_at(in + 82);
  two_bits(in + 16, out.codes);
  for (int part = 0; part < 16; ++part) {
    const uint8_t both = byte_at(in, part);
    std::fill_n(out.scales + 16 * part, 16, d * static_cast<float>(both & 15));
    std::fill_n(out.offsets + 16 * part, 16, -(least * static_cast<float>(both >> 4)));
  }
}

void q3_k_block(const std::byte* in, const GgufRow& out) {
  const float d = half_at(in + 108);
  two_bits(in + 32, out.codes);
  add_bit_planes(in, 4, out.codes);
  subtract(out.codes, 256, 4);
  for (int part = 0; part < 16; ++part) {
    const int low = (byte_at(in, 96 + part % 8) >> (part / 8 * 4)) & 15;
    const int high = (byte_at(in, 104 + part % 4) >> (part / 4 * 2)) & 3;
    std::fill_n(out.scales + 16 * part, 16, d * static_cast<float>((low | (high << 4)) - 32));
  }
}

/// Scales and minimums of q4_k and q5_k: of each the first four in the lower 6 bits of a byte; the
/// upper 2 bits of those complete nibbles for the last four.
void scales_of_eight(const std::byte* in, const GgufRow& out) {
  const float d = half_at(in);
  const float least = half_at(in + 2);
  for (int part = 0; part < 8; ++part) {
    const int k = part % 4;
    int scale = byte_at(in, 4 + k) & 63;
    int minimum = byte_at(in, 8 + k) & 63;
    if (part >= 4) {
      scale = (byte_at(in, 12 + k) & 15) | (byte_at(in, 4 + k) >> 6 << 4);
      minimum = (byte_at(in, 12 + k) >> 4) | (byte_at(in, 8 + k) >> 6 << 4);
    }
    std::fill_n(out.scales + 32 * part, 32, d * static_cast<float>(scale));
    std::fill_n(out.offsets + 32 * part, 32, -(least * static_cast<float>(minimum)));
  }
}

void q4_k_block(const std::byte* in, const GgufRow& out) {
  scales_of_eight(in, out);
  four_bits(in + 16, 32, out.codes);
}

void q5_k_block(const std::byte* in, const GgufRow& out) {
  scales_of_eight(in, out);
  four_bits(in + 48, 32, out.codes);
  add_bit_planes(in + 16, 16, out.codes);
}

void q6_k_block(const std::byte* in, const GgufRow& out) {
  const float d = half_at(in + 208);
  uint8_t high[256];
  four_bits(in, 64, out.codes);
  two_bits(in + 128, high);
  for (int j = 0; j < 256; ++j) {
    out.codes[j] = static_cast<uint8_t>((out.codes[j] | (high[j] << 4)) - 32);
  }
  for (int part = 0; part < 16; ++part) {
    const auto scale = static_cast<float>(static_cast<int8_t>(byte_at(in, 192 + part)));
    std::fill_n(out.scales + 16 * part, 16, d * scale);
  }
}

void unpack_block(BlockFormat format, const std::byte* in, const GgufRow& out) {
  switch (format) {
    case BlockFormat::q2_k:
      return q2_k_block(in, out);
    case BlockFormat::q3_k:
      return q3_k_block(in, out);
    case BlockFormat::q4_k:
      return q4_k_block(in, out);
    case BlockFormat::q5_k:
      return q5_k_block(in, out);
    case BlockFormat::q6_k:
      return q6_k_block(in, out);
    default:
      return;  // of 32 values
  }
}

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

void unpack_gguf_32(BlockFormat format, const std::byte* in, int64_t blocks,
                    const GgufRow& out) noexcept {
  const int64_t step = gguf_block(format).bytes;
  gather_halves(in, blocks, step, out.scales);
  if (format_has_offsets(format)) gather_halves(in + 2, blocks, step, out.offsets);
  for (int64_t i = 0; i < blocks; ++i) codes_of_32(format, in + i * step, out.codes + 32 * i);
}

void numbers_of_codes(BlockFormat format, uint8_t* codes, int64_t count) noexcept {
  if (format == BlockFormat::q4_0) subtract(codes, count, 8);
  if (format == BlockFormat::q5_0) subtract(codes, count, 16);
  if (format != BlockFormat::iq4_nl) return;
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(kIq4Values[codes[i]]);
}

void unpack_gguf_256(BlockFormat format, const std::byte* in, int64_t blocks,
                     const GgufRow& out) noexcept {
  const int64_t step = gguf_block(format).bytes;
  for (int64_t i = 0; i < blocks; ++i) {
    unpack_block(format, in + i * step,
                 {out.codes + 256 * i, out.scales + 256 * i, out.offsets + 256 * i});
  }
}

}  // namespace weightloom
