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
/// The fields of each of `words` words, in the order of the codec's columns.
void unpack_words(const BlockCodec& codec, const std::byte* in, int64_t words,
                  uint8_t* out) noexcept;
/// Of each of `words` words the field of `width` bits at `place`.
void pick_fields(const std::byte* in, int64_t words, int width, int64_t place,
                 uint8_t* out) noexcept;

/// True of the formats of GGUF whose values are code × scale + offset.
bool format_has_offsets(BlockFormat format) noexcept;

/// Where GGUF blocks are unpacked to.
struct GgufRow {
  uint8_t* codes = nullptr;  ///< one a value
  float* scales = nullptr;   ///< one for each values_of_part
  float* offsets = nullptr;  ///< likewise, where format_has_offsets
};
/// Values of a format of GGUF that share a scale: 16 or 32.
int64_t values_of_part(BlockFormat format) noexcept;
/// Unpacks blocks. Codes become the numbers that they stand for, signed where there are no offsets;
/// but those of q4_0 and iq4_nl stay nibbles, whose numbers table_of_nibbles tells.
void unpack_gguf(BlockFormat format, const std::byte* in, int64_t blocks,
                 const GgufRow& out) noexcept;
/// What the nibbles of q4_0, q4_1, q4_k and iq4_nl stand for; null for other formats.
const float* table_of_nibbles(BlockFormat format) noexcept;
/// Makes numbers of nibbles, where they are not yet.
void numbers_of_nibbles(BlockFormat format, uint8_t* codes, int64_t count) noexcept;

}  // namespace weightloom
