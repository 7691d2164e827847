// Encodes a box block by block: its largest magnitude, its scale, then its codes. Blocks that have
// something infinite or NaN are rare, and the reference's.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "weightloom/codec/block_codec.h"
#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/encode_rows_internal.h"
#include "weightloom/codec/exact_floats_internal.h"

namespace weightloom {
namespace {

constexpr int64_t kChunk = 512;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr int kMantissaBits = 23;

/// What a block's codes are made with.
struct Scale {
  uint32_t stored = 0;   ///< as the scale's dtype has it
  float multiplier = 1;  ///< of values, to become codes
};

/// 2^(exponent − 127), for an exponent in F8_E8M0.
float power_of_two(uint32_t exponent) {
  return std::bit_cast<float>(exponent == 0 ? uint32_t{1} << (kMantissaBits - 1)
                                            : exponent << kMantissaBits);
}

/// The least exponent of F8_E8M0 whose power of two is neither below a positive value nor 2^-126.
uint32_t exponent_not_below(float value) {
  const auto pattern = std::bit_cast<uint32_t>(value);
  const uint32_t mantissa = pattern & ((uint32_t{1} << kMantissaBits) - 1);
  return std::clamp((pattern >> kMantissaBits) + (mantissa != 0 ? 1 : 0), uint32_t{1},
                    uint32_t{254});
}

Scale fp8_scale(float amax, float largest, bool is_power_of_two) {
  float scale = amax == 0 ? 1 : 1 / amax * largest;
  scale = std::min(scale, std::numeric_limits<float>::max());
  const float inverse = 1 / scale;
  if (!is_power_of_two) return {std::bit_cast<uint32_t>(inverse), scale};
  const uint32_t stored = exponent_not_below(inverse);
  return {stored, power_of_two(254 - stored)};
}

Scale e2m1_scale(float amax) {
  const uint32_t exponent = std::bit_cast<uint32_t>(amax) >> kMantissaBits;
  const uint32_t stored = exponent < 2 ? 0 : exponent - 2;
  return {stored, power_of_two(254 - stored)};
}

class BoxEncoder {
 public:
  BoxEncoder(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
             std::span<const OperandSpan> operands)
      : codec_(codec), box_(box), values_(values), out_(bind_outputs(codec, box, operands)) {}

  int64_t run() {
    int64_t lost = 0;
    for (int64_t row = box_.row_begin; row < box_.row_end;) {
      const int64_t row_end = end_of(row, codec_.block_rows, box_.row_end);
      for (int64_t col = box_.col_begin; col < box_.col_end;) {
        const int64_t col_end = end_of(col, codec_.block_cols, box_.col_end);
        lost += encode_block({row, row_end, col, col_end});
        col = col_end;
      }
      row = row_end;
    }
    return lost;
  }

 private:
  static int64_t end_of(int64_t begin, int64_t block, int64_t end) {
    return block == kEntireDim ? end : std::min(end, begin + block);
  }

  const std::byte* values_at(int64_t row, int64_t col) const {
    return values_.data + (row - box_.row_begin) * values_.row_bytes +
           (col - box_.col_begin) * static_cast<int64_t>(sizeof(float));
  }

  int64_t encode_block(const ValueBox& block) {
    uint32_t largest = 0;
    for (int64_t row = block.row_begin; row < block.row_end; ++row) {
      largest = std::max(largest, largest_pattern(values_at(row, block.col_begin), block.cols()));
    }
    if (largest >= kInfinity) return encode_by_reference(block);
    const auto amax = std::bit_cast<float>(largest);
    const Scale scale =
        codec_.format == BlockFormat::e2m1
            ? e2m1_scale(amax)
            : fp8_scale(amax, largest_code(codec_), codec_.scale_dtype != DType::F32);
    put_scale(block, scale.stored);
    for (int64_t row = block.row_begin; row < block.row_end; ++row) {
      for (int64_t col = block.col_begin; col < block.col_end; col += kChunk) {
        put_codes(row, col, std::min(kChunk, block.col_end - col), scale.multiplier);
      }
    }
    return 0;
  }

  int64_t encode_by_reference(const ValueBox& block) {
    const ValueBox scales = scale_box(block);
    const OperandSpan parts[] = {
        {out_.code_data + out_.codes.offset(block.row_begin, code_col(block.col_begin)),
         out_.codes.row_bytes},
        {out_.scale_data + out_.scales.offset(scales.row_begin, scales.col_begin),
         out_.scales.row_bytes}};
    const InputRows values{values_at(block.row_begin, block.col_begin), values_.row_bytes};
    return encode_reference(codec_, block, values, parts);
  }

  int64_t code_col(int64_t col) const { return codec_.format == BlockFormat::e2m1 ? col / 2 : col; }

  ValueBox scale_box(const ValueBox& block) const {
    return operand_box(operand_list(codec_).items[1], block);
  }

  void put_scale(const ValueBox& block, uint32_t stored) {
    const ValueBox scales = scale_box(block);
    std::memcpy(out_.scale_data + out_.scales.offset(scales.row_begin, scales.col_begin), &stored,
                static_cast<size_t>(out_.scales.element_bytes));
  }

  void put_codes(int64_t row, int64_t col, int64_t count, float multiplier) {
    std::byte* out = out_.code_data + out_.codes.offset(row, code_col(col));
    scale_row(values_at(row, col), count, multiplier, largest_code(codec_), scaled_);
    if (codec_.format == BlockFormat::fp8) {
      cast(DType::F32, codec_.code_dtype, reinterpret_cast<const std::byte*>(scaled_), out, count);
      return;
    }
    e2m1_codes(scaled_, count, codes_);
    if (count % 2 == 1) codes_[count] = 0;  // what a last column leaves of its byte
    for (int64_t i = 0; i < count; i += 2) {
      out[i / 2] = static_cast<std::byte>(codes_[i] | (codes_[i + 1] << 4));
    }
  }

  const BlockCodec& codec_;
  const ValueBox& box_;
  const InputRows& values_;
  BoundOutputs out_;
  alignas(64) float scaled_[kChunk];
  uint8_t codes_[kChunk + 1];
};

}  // namespace

int64_t encode(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
               std::span<const OperandSpan> operands) noexcept {
  const ExactFloats exact;
  return BoxEncoder(codec, box, values, operands).run();
}

}  // namespace weightloom
