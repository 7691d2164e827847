// Rows of codes of 8 bits become rows of numbers, on vectors of whatever the processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightloom {

/// How a code becomes a number.
enum class CodeKind {
  e4m3,
  e5m2,
  signed8,
  unsigned8,
  table16,
  table256,
  fields,  ///< of words of 32 bits, all at the same place
};

/// Further operations on a number, from left to right: (number − zero) × scale × factor + offset.
enum class RowSteps {
  scale,              ///< × scale
  zero_scale,         ///< − zero, × scale
  zero_scale_factor,  ///< − zero, × scale, × factor
  scale_offset,       ///< × scale, + offset
};

/// Floats that a row takes must be readable for so many past its count.
inline constexpr int64_t kRowSlack = 64;
/// The fewest codes of a run, beside which all floats are the same.
inline constexpr int64_t kRun = 16;

/// A row of codes, and what stands beside each.
struct CodeRow {
  CodeKind kind = CodeKind::e4m3;    ///< of all codes
  RowSteps steps = RowSteps::scale;  ///< of all codes
  int64_t count = 0;                 ///< of codes
  const std::byte* codes = nullptr;  ///< one each, or a word each of fields
  int shift = 0;                     ///< of fields: below them in their words
  int mask = 0;                      ///< of fields: ones, as many as they have bits
  bool has_runs = false;             ///< floats are one for each run of codes
  int run_log2 = 0;                  ///< of the codes of a run, which are kRun at least
  const float* scales = nullptr;     ///< one each (or for each run), and kRowSlack
  const float* zeros = nullptr;      ///< likewise, if steps take them
  const float* offsets = nullptr;    ///< likewise, if steps take them
  float factor = 1;                  ///< if steps take it
  const float* table = nullptr;      ///< of 16 or 256, for those kinds
};

/// Numbers in F32, one each, at `out`, which needs no alignment. Gives the largest of their
/// patterns less the sign: from 0x7f800000 on, something is infinite or no number.
/// Source: the operations are those of block_codec_reference.h.
/// Precondition: rounding to nearest even, subnormals kept; combinations that the switch has.
uint32_t row_to_f32(const CodeRow& row, std::byte* out) noexcept;

/// The same, rounded to BF16, where numbers are finite. Gives the largest pattern before rounding:
/// from kBf16Overflow on, what was written does not hold.
uint32_t row_to_bf16(const CodeRow& row, std::byte* out) noexcept;

/// The least pattern of F32 that does not round to a finite BF16.
inline constexpr uint32_t kBf16Overflow = 0x7f7f8000;
/// The pattern of infinity.
inline constexpr uint32_t kF32Infinity = 0x7f800000;

}  // namespace weightloom
