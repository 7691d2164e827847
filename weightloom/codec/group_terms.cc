#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "weightloom/codec/cast.h"
#include "weightloom/codec/code_unpack_internal.h"
#include "weightloom/codec/group_terms_internal.h"

namespace weightloom {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool is_power_of_two(DType dtype) { return dtype == DType::F8_E8M0 || dtype == DType::U8; }

float power_of_two(std::byte exponent) {
  const auto biased = std::to_integer<uint32_t>(exponent);
  if (biased == 255) return kNaN;
  return std::bit_cast<float>(biased == 0 ? uint32_t{0x00400000} : biased << 23);
}

/// `count` elements in F32.
void to_floats(DType dtype, const std::byte* __restrict in, int64_t count, float* __restrict out) {
  if (!is_power_of_two(dtype)) {
    cast(dtype, DType::F32, in, reinterpret_cast<std::byte*>(out), count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = power_of_two(in[i]);
}

}  // namespace

int64_t GroupTerms::row_group(int64_t row) const noexcept {
  if (!codec_.group_index) return group_of(row, codec_.block_rows);
  int32_t index = 0;
  std::memcpy(&index, operands_.of(OperandRole::group_index).at(row, 0), sizeof(index));
  return index < 0 || index >= codec_.groups ? codec_.groups : index;
}

bool GroupTerms::is_missing(int64_t group) const noexcept {
  return codec_.group_index && group == codec_.groups;
}

void GroupTerms::take_scales(int64_t group, int64_t first, int64_t count,
                             float* out) const noexcept {
  if (is_missing(group)) {
    std::fill_n(out, count, kNaN);
    return;
  }
  const BoundOperand& scales = operands_.of(OperandRole::scales);
  to_floats(scales.dtype, scales.at(group, first), count, out);
  if (codec_.global_scale == GlobalScale::none) return;
  float global = 0;
  std::memcpy(&global, operands_.of(OperandRole::global_scale).data, sizeof(global));
  const bool multiplies = codec_.global_scale == GlobalScale::multiplies;
  for (int64_t i = 0; i < count; ++i) out[i] = multiplies ? out[i] * global : out[i] / global;
}

void GroupTerms::take_zeros(int64_t group, int64_t first, int64_t count,
                            float* out) const noexcept {
  // Codes of packed are stored so much too large.
  const int middle = codec_.format == BlockFormat::packed ? 1 << (codec_.bits - 1) : 0;
  if (!codec_.zero_points || is_missing(group)) {
    std::fill_n(out, count, static_cast<float>(middle));
  } else if (has_packed_zeros(codec_)) {
    take_fields(group, first, count, out);
  } else {
    const std::byte* zeros = operands_.of(OperandRole::zero_points).at(group, first);
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<float>(middle + static_cast<int8_t>(std::to_integer<uint8_t>(zeros[i])));
    }
  }
}

/// Zeros that are fields of words; those of packed are stored as much too large as its codes.
void GroupTerms::take_fields(int64_t group, int64_t first, int64_t count,
                             float* out) const noexcept {
  constexpr int64_t kMostFields = 16;
  uint8_t fields[kMostGroups + 2 * kMostFields];
  const BoundOperand& zeros = operands_.of(OperandRole::zero_points);
  const int64_t per_word = fields_of_word(codec_);
  const auto width = static_cast<int>(32 / per_word);
  const uint8_t* from = fields;
  if (codec_.format == BlockFormat::packed) {
    pick_fields(zeros.at(group / per_word, first), count, width, group % per_word, fields);
  } else {
    const int64_t words = (first + count - 1) / per_word - first / per_word + 1;
    unpack_words(codec_, zeros.at(group, first / per_word), words, fields);
    from += first % per_word;
  }
  const int bias = codec_.format == BlockFormat::gptq ? codec_.zero_bias : 0;
  const int mask = (1 << width) - 1;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>((from[i] + bias) & mask);
}

}  // namespace weightloom
