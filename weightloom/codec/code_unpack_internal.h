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

/// True of the formats of GGUF whose values are code × scale + offset.
bool format_has_offsets(BlockFormat format) noexcept;

/// Where GGUF blocks are unpacked to.
struct GgufRow {
  uint8_t* codes = nullptr;  ///< one a value
  float* scales = nullptr;   ///< one a value, or of blocks of 32 one a block
  float* offsets = nullptr;  ///< likewise, where format_has_offsets
};
/// Unpacks blocks of 32 values: codes as they are stored.
void unpack_gguf_32(BlockFormat format, const std::byte* in, int64_t blocks,
                    const GgufRow& out) noexcept;
/// Makes of those codes the numbers that they stand for, signed where there are no offsets.
void numbers_of_codes(BlockFormat format, uint8_t* codes, int64_t count) noexcept;
/// Unpacks blocks of 256 values: such numbers.
void unpack_gguf_256(BlockFormat format, const std::byte* in, int64_t blocks,
                     const GgufRow& out) noexcept;

}  // namespace weightloom
