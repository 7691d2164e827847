// The reference for the block types of GGUF, one value at a time.
//
// Every block begins or ends with d, an F16, and may have m or dmin, another; q is a code, sc and
// mn are small integers of a part of the block. Each line is computed in F32 from left to right.
//   q4_0    (q − 8) · d              low nibbles of 16 bytes are values 0 to 15, high ones the rest
//   q4_1    d · q + m
//   q5_0    (q − 16) · d             the fifth bit of value i is bit i of 32
//   q5_1    d · q + m
//   q8_0    q · d
//   q2_k    (d · sc) · q − dmin · mn       16 parts of 16 values
//   q3_k    (d · (sc − 32)) · (q − 4)      16 parts of 16
//   q4_k    (d · sc) · q − dmin · mn       8 parts of 32
//   q5_k    (d · sc) · q − dmin · mn       8 parts of 32
//   q6_k    (d · sc) · (q − 32)            16 parts of 16
//   iq4_nl  d · table[q]
// Source: gguf 0.19.0, gguf/quants.py, dequantize_blocks; ggml's block structures.
#pragma once

#include <array>
#include <cstddef>

#include "weightloom/codec/block_codec.h"

namespace weightloom {

/// What the codes of iq4_nl stand for.
inline constexpr std::array<signed char, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Value `index` of a block of a format of GGUF.
float gguf_value(BlockFormat format, const std::byte* block, int index) noexcept;

}  // namespace weightloom
