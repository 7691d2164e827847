#include <bit>
#include <cstdint>

#include "weightloom/codec/cast_reference.h"
#include "weightloom/codec/gguf_reference_internal.h"

namespace weightloom {
namespace {

/// A block's bytes.
class Block {
 public:
  explicit Block(const std::byte* data) : data_(data) {}

  int byte(int at) const { return std::to_integer<int>(data_[at]); }
  int signed_byte(int at) const { return byte(at) < 128 ? byte(at) : byte(at) - 256; }
  int bit(int at, int index) const { return (byte(at + index / 8) >> (index % 8)) & 1; }
  float half(int at) const {
    const auto pattern = static_cast<uint64_t>(byte(at) | (byte(at + 1) << 8));
    return std::bit_cast<float>(static_cast<uint32_t>(cast_bits(DType::F16, DType::F32, pattern)));
  }

 private:
  const std::byte* data_;
};

/// Value i of the nibbles of a block of 32: low ones, then high ones.
int split_nibble(const Block& block, int at, int i) {
  const int byte = block.byte(at + i % 16);
  return i < 16 ? byte & 15 : byte >> 4;
}

/// Fields of `width` bits of `run` bytes at a time: all lowest ones, then the next.
int striped_field(const Block& block, int at, int run, int width, int i) {
  const int stripes = 8 / width;
  const int group = i / (run * stripes);
  const int stripe = i / run % stripes;
  return (block.byte(at + group * run + i % run) >> (stripe * width)) & ((1 << width) - 1);
}

float q5(const Block& block, int at, int i) {
  return static_cast<float>(split_nibble(block, at + 4, i) | (block.bit(at, i) << 4));
}

float q2_k(const Block& block, int i) {
  const int part = block.byte(i / 16);
  const float scale = block.half(80) * static_cast<float>(part & 15);
  const float least = block.half(82) * static_cast<float>(part >> 4);
  return scale * static_cast<float>(striped_field(block, 16, 32, 2, i)) - least;
}

float q3_k(const Block& block, int i) {
  const int part = i / 16;
  const int low = part < 8 ? block.byte(96 + part) & 15 : block.byte(96 + part - 8) >> 4;
  const int high = (block.byte(104 + part % 4) >> (part / 4 * 2)) & 3;
  const float scale = block.half(108) * static_cast<float>((low | (high << 4)) - 32);
  const int mask = (block.byte(i % 32) >> (i / 32)) & 1;
  return scale * static_cast<float>(striped_field(block, 32, 32, 2, i) - (mask == 1 ? 0 : 4));
}

/// Scale and minimum of a part of q4_k and q5_k, 6 bits each, in 12 bytes.
int part_scale(const Block& block, int part) {
  if (part < 4) return block.byte(4 + part) & 63;
  return (block.byte(12 + part - 4) & 15) | (block.byte(4 + part - 4) >> 6 << 4);
}
int part_least(const Block& block, int part) {
  if (part < 4) return block.byte(8 + part) & 63;
  return (block.byte(12 + part - 4) >> 4) | (block.byte(8 + part - 4) >> 6 << 4);
}

float q45_k(const Block& block, int i, int code) {
  const float scale = block.half(0) * static_cast<float>(part_scale(block, i / 32));
  const float least = block.half(2) * static_cast<float>(part_least(block, i / 32));
  return scale * static_cast<float>(code) - least;
}

float q6_k(const Block& block, int i) {
  const int low = striped_field(block, 0, 64, 4, i);
  const int high = striped_field(block, 128, 32, 2, i);
  const float scale = block.half(208) * static_cast<float>(block.signed_byte(192 + i / 16));
  return scale * static_cast<float>((low | (high << 4)) - 32);
}

}  // namespace

float gguf_value(BlockFormat format, const std::byte* data, int i) noexcept {
  const Block block(data);
  switch (format) {
    case BlockFormat::q4_0:
      return static_cast<float>(split_nibble(block, 2, i) - 8) * block.half(0);
    case BlockFormat::q4_1:
      return block.half(0) * static_cast<float>(split_nibble(block, 4, i)) + block.half(2);
    case BlockFormat::q5_0:
      return (q5(block, 2, i) - 16) * block.half(0);
    case BlockFormat::q5_1:
      return block.half(0) * q5(block, 4, i) + block.half(2);
    case BlockFormat::q8_0:
      return static_cast<float>(block.signed_byte(2 + i)) * block.half(0);
    case BlockFormat::q2_k:
      return q2_k(block, i);
    case BlockFormat::q3_k:
      return q3_k(block, i);
    case BlockFormat::q4_k:
      return q45_k(block, i, striped_field(block, 16, 32, 4, i));
    case BlockFormat::q5_k: {
      const int high = (block.byte(16 + i % 32) >> (i / 32)) & 1;
      return q45_k(block, i, striped_field(block, 48, 32, 4, i) | (high << 4));
    }
    case BlockFormat::q6_k:
      return q6_k(block, i);
    case BlockFormat::iq4_nl:
      return block.half(0) *
             static_cast<float>(kIq4Values[static_cast<size_t>(split_nibble(block, 2, i))]);
    default:
      return 0;  // not of GGUF
  }
}

}  // namespace weightloom
