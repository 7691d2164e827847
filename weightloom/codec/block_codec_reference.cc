#include "weightloom/codec/block_codec_reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/cast_reference.h"
#include "weightloom/codec/exact_floats_internal.h"
#include "weightloom/codec/gguf_reference_internal.h"

namespace weightloom {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

uint64_t bits_at(const BoundOperand& operand, int64_t row, int64_t col) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, operand.at(row, col), static_cast<size_t>(operand.element_bytes));
  return pattern;
}

float float_of(DType dtype, uint64_t pattern) {
  if (dtype == DType::F8_E8M0 || dtype == DType::U8) {
    return pattern == 255 ? kNaN : std::ldexp(1.0F, static_cast<int>(pattern) - 127);
  }
  return std::bit_cast<float>(static_cast<uint32_t>(cast_bits(dtype, DType::F32, pattern)));
}

float float_at(const BoundOperand& operand, int64_t row, int64_t col) {
  return float_of(operand.dtype, bits_at(operand, row, col));
}

int field_of(uint64_t word, int64_t field, int width) {
  return static_cast<int>((word >> (field * width)) & ((uint64_t{1} << width) - 1));
}

/// The group of values along a dim that place belongs to.
int64_t group_of(int64_t place, int64_t block) { return block == kEntireDim ? 0 : place / block; }

/// One value of a codec, by its row and column.
class Values {
 public:
  Values(const BlockCodec& codec, const BoundOperands& operands)
      : codec_(codec),
        operands_(operands),
        width_(codec.format == BlockFormat::awq ? 4 : codec.bits) {}

  float at(int64_t row, int64_t col) const {
    if (is_gguf(codec_.format)) {
      const GgufBlock block = gguf_block(codec_.format);
      const std::byte* data = codes().at(row, col / block.values * block.bytes);
      return gguf_value(codec_.format, data, static_cast<int>(col % block.values));
    }
    const int64_t group = row_group(row);
    if (codec_.group_index && (group < 0 || group >= codec_.groups)) return kNaN;
    const float product = number(row, col, group) * scale(group, col);
    if (codec_.format == BlockFormat::int8) return product * codec_.factor;
    return codec_.format == BlockFormat::table8 ? product + codec_.offset : product;
  }

 private:
  const BoundOperand& codes() const { return operands_.of(OperandRole::codes); }

  int64_t row_group(int64_t row) const {
    if (!codec_.group_index) return group_of(row, codec_.block_rows);
    return static_cast<int32_t>(bits_at(operands_.of(OperandRole::group_index), row, 0));
  }

  float scale(int64_t group, int64_t col) const {
    const float own =
        float_at(operands_.of(OperandRole::scales), group, group_of(col, codec_.block_cols));
    if (codec_.global_scale == GlobalScale::none) return own;
    const float global = float_at(operands_.of(OperandRole::global_scale), 0, 0);
    return codec_.global_scale == GlobalScale::multiplies ? own * global : own / global;
  }

  /// A code, less its zero.
  float number(int64_t row, int64_t col, int64_t group) const {
    switch (codec_.format) {
      case BlockFormat::fp8:
        return float_at(codes(), row, col);
      case BlockFormat::e2m1:
        return e2m1(field_of(bits_at(codes(), row, col / 2), col % 2, 4));
      case BlockFormat::table4:
        return entry(field_of(bits_at(codes(), row, col / 2), 1 - col % 2, 4));
      case BlockFormat::table8:
        return entry(static_cast<int>(bits_at(codes(), row, col)));
      case BlockFormat::int8:
        return static_cast<float>(static_cast<int8_t>(bits_at(codes(), row, col)) -
                                  zero(group, col));
      default:
        return static_cast<float>(field(row, col) - zero(group, col));
    }
  }

  static float e2m1(int code) {
    constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    return code < 8 ? kMagnitudes[code] : -kMagnitudes[code - 8];
  }

  float entry(int index) const { return float_at(operands_.of(OperandRole::table), 0, index); }

  /// A field of the codes; those of packed are stored 2^(bits − 1) too large.
  int field(int64_t row, int64_t col) const {
    const int64_t fields = 32 / width_;
    if (codec_.format == BlockFormat::gptq) {
      return field_of(bits_at(codes(), row / fields, col), row % fields, width_);
    }
    const uint64_t word = bits_at(codes(), row, col / fields);
    if (codec_.format == BlockFormat::packed) {
      return field_of(word, col % fields, width_) - (1 << (width_ - 1));
    }
    return field_of(word, kAwqFields[static_cast<size_t>(col % fields)], width_);
  }

  int zero(int64_t group, int64_t col) const {
    if (!codec_.zero_points) return 0;
    const BoundOperand& zeros = operands_.of(OperandRole::zero_points);
    const int64_t across = group_of(col, codec_.block_cols);
    if (!has_packed_zeros(codec_)) return static_cast<int8_t>(bits_at(zeros, group, across));
    const int64_t fields = 32 / width_;
    if (codec_.format == BlockFormat::packed) {
      const uint64_t word = bits_at(zeros, group / fields, across);
      return field_of(word, group % fields, width_) - (1 << (width_ - 1));
    }
    const uint64_t word = bits_at(zeros, group, across / fields);
    if (codec_.format == BlockFormat::awq) {
      return field_of(word, kAwqFields[static_cast<size_t>(across % fields)], width_);
    }
    return (field_of(word, across % fields, width_) + codec_.zero_bias) & ((1 << width_) - 1);
  }

  const BlockCodec& codec_;
  const BoundOperands& operands_;
  int width_;  // of a field
};

/// Writes a value, and tells whether it is finite there.
bool put(float value, DType dtype, std::byte* out) {
  const auto pattern = std::isnan(value) ? uint32_t{0x7fc00000} : std::bit_cast<uint32_t>(value);
  const uint64_t result = cast_bits(DType::F32, dtype, pattern);
  std::memcpy(out, &result, static_cast<size_t>(bits(dtype) / 8));
  const uint64_t back = cast_bits(dtype, DType::F64, result);
  return std::isfinite(std::bit_cast<double>(dtype == DType::F64 ? result : back));
}

}  // namespace

int64_t decode_reference(const BlockCodec& codec, const ValueBox& box,
                         std::span<const OperandView> operands, const ValueRows& out) noexcept {
  const ExactFloats exact;
  const BoundOperands bound = bind_operands(codec, box, operands);
  const Values values(codec, bound);
  const int64_t width = bits(out.dtype) / 8;
  int64_t lost = 0;
  for (int64_t row = box.row_begin; row < box.row_end; ++row) {
    std::byte* to = out.data + (row - box.row_begin) * out.row_bytes;
    for (int64_t col = box.col_begin; col < box.col_end; ++col, to += width) {
      lost += put(values.at(row, col), out.dtype, to) ? 0 : 1;
    }
  }
  return lost;
}

}  // namespace weightloom
