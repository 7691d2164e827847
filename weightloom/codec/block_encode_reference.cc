#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/codec/cast_reference.h"
#include "weightloom/codec/exact_floats_internal.h"

namespace weightloom {
namespace {

bool is_power_of_two(const BoundOperand& scales) { return scales.dtype != DType::F32; }

/// What a block's codes are made with.
struct Scale {
  uint32_t stored = 0;   ///< as the scale's dtype has it
  float multiplier = 1;  ///< of values, to become codes
};

/// 2^⌈log2 value⌉ as F8_E8M0, of a positive value, at least 2^-126.
uint32_t exponent_not_below(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);  // in [0.5, 1)
  const int power = mantissa == 0.5F ? exponent - 1 : exponent;
  return static_cast<uint32_t>(std::clamp(power, -126, 127) + 127);
}

Scale fp8_scale(float amax, float largest, bool power_of_two) {
  float scale = amax == 0 ? 1 : (1 / amax) * largest;
  if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
  const float inverse = 1 / scale;
  if (!power_of_two) return {std::bit_cast<uint32_t>(inverse), scale};
  const uint32_t stored = exponent_not_below(inverse);
  return {stored, std::ldexp(1.0F, 127 - static_cast<int>(stored))};
}

Scale e2m1_scale(float amax, bool has_nan) {
  if (has_nan) return {255, 1};
  const int power = amax == 0 ? -127 : std::clamp(std::ilogb(amax) - 2, -127, 127);
  return {static_cast<uint32_t>(power + 127), std::ldexp(1.0F, -power)};
}

uint8_t e2m1_code(float value) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const uint8_t sign = std::signbit(value) ? 8 : 0;
  uint8_t code = 0;
  for (uint8_t next = 1; next < 8; ++next) {
    const float middle = (kMagnitudes[code] + kMagnitudes[next]) / 2;
    const bool is_tie_to_even = std::abs(value) == middle && next % 2 == 0;
    if (std::abs(value) > middle || is_tie_to_even) code = next;
  }
  return sign | code;
}

/// Encodes the block of one scale.
class BlockEncoder {
 public:
  BlockEncoder(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
               const BoundOutputs& out)
      : codec_(codec), box_(box), values_(values), out_(out) {}

  int64_t encode(const ValueBox& block) const {
    const Scale scale = scale_of(block);
    const int64_t row = codec_.block_rows == kEntireDim ? 0 : block.row_begin / codec_.block_rows;
    const int64_t col = codec_.block_cols == kEntireDim ? 0 : block.col_begin / codec_.block_cols;
    std::memcpy(out_.scale_data + out_.scales.offset(row, col), &scale.stored,
                static_cast<size_t>(out_.scales.element_bytes));
    int64_t lost = 0;
    for (int64_t r = block.row_begin; r < block.row_end; ++r) {
      for (int64_t c = block.col_begin; c < block.col_end; ++c) {
        put(r, c, value(r, c) * scale.multiplier);
        lost += std::isfinite(value(r, c)) ? 0 : 1;
      }
    }
    return lost;
  }

 private:
  float value(int64_t row, int64_t col) const {
    float value = 0;
    std::memcpy(&value,
                values_.data + (row - box_.row_begin) * values_.row_bytes +
                    (col - box_.col_begin) * static_cast<int64_t>(sizeof(value)),
                sizeof(value));
    return value;
  }

  Scale scale_of(const ValueBox& block) const {
    float amax = 0;
    bool has_nan = false;
    for (int64_t r = block.row_begin; r < block.row_end; ++r) {
      for (int64_t c = block.col_begin; c < block.col_end; ++c) {
        if (std::isfinite(value(r, c))) amax = std::max(amax, std::abs(value(r, c)));
        has_nan = has_nan || std::isnan(value(r, c));
      }
    }
    if (codec_.format == BlockFormat::e2m1) return e2m1_scale(amax, has_nan);
    return fp8_scale(amax, largest_code(codec_), is_power_of_two(out_.scales));
  }

  void put(int64_t row, int64_t col, float scaled) const {
    if (codec_.format == BlockFormat::e2m1) return put_nibble(row, col, scaled);
    const float largest = largest_code(codec_);
    const float cut = std::isnan(scaled) ? scaled : std::clamp(scaled, -largest, largest);
    const uint64_t code =
        cast_bits(DType::F32, codec_.code_dtype,
                  std::isnan(cut) ? uint32_t{0x7fc00000} : std::bit_cast<uint32_t>(cut));
    out_.code_data[out_.codes.offset(row, col)] = static_cast<std::byte>(code);
  }

  /// The odd nibble that a last column leaves is 0.
  void put_nibble(int64_t row, int64_t col, float scaled) const {
    const uint8_t code = std::isnan(scaled) ? 0 : e2m1_code(scaled);
    std::byte& byte = out_.code_data[out_.codes.offset(row, col / 2)];
    byte = col % 2 == 0 ? std::byte{code} : byte | static_cast<std::byte>(code << 4);
  }

  const BlockCodec& codec_;
  const ValueBox& box_;
  const InputRows& values_;
  const BoundOutputs& out_;
};

/// Where the block that begins at `begin` ends.
int64_t block_end(int64_t begin, int64_t block, int64_t end) {
  return block == kEntireDim ? end : std::min(end, begin + block);
}

}  // namespace

int64_t encode_reference(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
                         std::span<const OperandSpan> operands) noexcept {
  const ExactFloats exact;
  const BoundOutputs out = bind_outputs(codec, box, operands);
  const BlockEncoder encoder(codec, box, values, out);
  int64_t lost = 0;
  for (int64_t row = box.row_begin; row < box.row_end;) {
    const int64_t row_end = block_end(row, codec.block_rows, box.row_end);
    for (int64_t col = box.col_begin; col < box.col_end;) {
      const int64_t col_end = block_end(col, codec.block_cols, box.col_end);
      lost += encoder.encode({row, row_end, col, col_end});
      col = col_end;
    }
    row = row_end;
  }
  return lost;
}

}  // namespace weightloom
