// Codes out of bytes and words, one to a byte, and the blocks of GGUF out of theirs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/codec/block_codec.h"

namespace weightloom {

/// Both nibbles of each of `bytes` bytes, low ones first.
void unpack_low_first(const std::byte* in, int64_t bytes, uint8_t* out) noexcept;
/// The same, high ones first.
void unpack_high_first(const std::byte* in, int64_t bytes, uint8_t* out) noexcept;
/// The eight fields of each of `words` words, in the order of awq's columns.
void unpack_awq(const std::byte* in, int64_t words, uint8_t* out) noexcept;
/// The fields of `width` bits of each of `words` words, low first.
void unpack_fields(const std::byte* in, int64_t words, int width, uint8_t* out) noexcept;
/// Of each of `words` words the field of `width` bits at `place`.
void pick_fields(const std::byte* in, int64_t words, int width, int64_t place,
                 uint8_t* out) noexcept;

/// Where the values of GGUF blocks are unpacked to: a code, a scale and perhaps an offset each.
struct GgufRow {
  uint8_t* codes = nullptr;  ///< signed8 for formats without offsets, else unsigned8
  float* scales = nullptr;   ///< one each
  float* offsets = nullptr;  ///< one each, where format_has_offsets
};
/// True of the formats whose values are code × scale + offset.
bool format_has_offsets(BlockFormat format) noexcept;
/// Unpacks `blocks` blocks of a format of GGUF.
void unpack_gguf(BlockFormat format, const std::byte* in, int64_t blocks,
                 const GgufRow& out) noexcept;

}  // namespace weightloom
