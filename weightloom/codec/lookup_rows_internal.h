// Rows of codes become BF16 by tables of what each code stands for beside a scale: faster than
// arithmetic where a scale covers many codes. On vectors of whatever the processor has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weightloom {

/// Columns of a group of codes that share tables are a multiple of this.
inline constexpr int64_t kLookupStep = 16;

/// A row of codes below 16, in groups: code i stands for (numbers[i] − zero) × scale + offset.
struct LookupRow {
  const uint8_t* codes = nullptr;  ///< one to a byte; below 16 up to a multiple of kLookupStep
  int64_t count = 0;               ///< of codes
  int64_t group = 0;               ///< codes of a group: a multiple of kLookupStep, or all
  const float* numbers = nullptr;  ///< 16
  const float* scales = nullptr;   ///< one a group
  const float* zeros = nullptr;    ///< one a group; null: none
  const float* offsets = nullptr;  ///< one a group; null: none
};
/// Writes what the codes stand for in BF16, rounded as row_to_bf16 rounds. False if a group has a
/// number that is not finite: then what was written does not hold.
bool look_up_codes(const LookupRow& row, std::byte* out) noexcept;

/// What 16 indexes stand for in BF16: lower bytes, then upper ones.
struct LookupTable {
  alignas(16) uint8_t lower[16];
  alignas(16) uint8_t upper[16];
};

/// For F8_E4M3: what mantissas stand for beside a scale. Entries 0 to 7 are of normal numbers, less
/// their exponent, 8 to 15 of subnormal ones. False unless all products are normal in BF16.
bool fill_e4m3_table(float scale, LookupTable& table) noexcept;

/// Writes for `count` codes of F8_E4M3 what they stand for: each `group` codes by the next table.
/// False if one was NaN, or the processor has no such vectors: then what was written does not hold.
bool look_up_e4m3(const std::byte* codes, int64_t count, int64_t group,
                  std::span<const LookupTable> tables, std::byte* out) noexcept;

}  // namespace weightloom
