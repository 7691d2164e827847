#include "weightloom/codec/block_codec.h"

#include <algorithm>
#include <numeric>

#include "weightloom/codec/block_codec_internal.h"

namespace weightloom {
namespace {

/// One element beside `block` values; beside the whole dim if block is kEntireDim.
Pace one_beside(int64_t block) { return {block, 1}; }

/// A word of `fields` values beside each group of `block` values' fields.
Pace word_beside(int64_t block, int64_t fields) { return {block * fields, 1}; }

CodecOperand codes_of(const BlockCodec& codec) {
  const int64_t fields = fields_of_word(codec);
  switch (codec.format) {
    case BlockFormat::fp8:
    case BlockFormat::table8:
    case BlockFormat::int8:
      return {OperandRole::codes, codec.code_dtype, {1, 1}, {1, 1}};
    case BlockFormat::e2m1:
    case BlockFormat::table4:
      return {OperandRole::codes, codec.code_dtype, {1, 1}, {2, 1}};
    case BlockFormat::packed:
    case BlockFormat::awq:
      return {OperandRole::codes, codec.code_dtype, {1, 1}, {fields, 1}};
    case BlockFormat::gptq:
      return {OperandRole::codes, codec.code_dtype, {fields, 1}, {1, 1}};
    case BlockFormat::q4_0:
    case BlockFormat::q4_1:
    case BlockFormat::q5_0:
    case BlockFormat::q5_1:
    case BlockFormat::q8_0:
    case BlockFormat::q2_k:
    case BlockFormat::q3_k:
    case BlockFormat::q4_k:
    case BlockFormat::q5_k:
    case BlockFormat::q6_k:
    case BlockFormat::iq4_nl:
      break;
  }
  const GgufBlock block = gguf_block(codec.format);
  return {OperandRole::codes, DType::U8, {1, 1}, {block.values, block.bytes}};
}

CodecOperand scales_of(const BlockCodec& codec) {
  const Pace rows =
      codec.group_index ? Pace{kEntireDim, codec.groups} : one_beside(codec.block_rows);
  return {OperandRole::scales, codec.scale_dtype, rows, one_beside(codec.block_cols)};
}

/// Zero points lie as scales do, except that some are fields of words.
CodecOperand zero_points_of(const BlockCodec& codec) {
  CodecOperand zeros = scales_of(codec);
  zeros.role = OperandRole::zero_points;
  zeros.dtype = has_packed_zeros(codec) ? DType::I32 : DType::I8;
  const int64_t fields = fields_of_word(codec);
  if (!has_packed_zeros(codec)) return zeros;
  if (codec.format == BlockFormat::packed) {
    zeros.rows = word_beside(codec.block_rows, fields);
  } else {
    zeros.cols = word_beside(codec.block_cols, fields);
  }
  return zeros;
}

CodecOperand table_of(const BlockCodec& codec) {
  const int64_t size = codec.format == BlockFormat::table4 ? 16 : 256;
  return {OperandRole::table, DType::F32, {kEntireDim, 1}, {kEntireDim, size}};
}

bool has_table(const BlockCodec& codec) {
  return codec.format == BlockFormat::table4 || codec.format == BlockFormat::table8;
}

/// [begin, end) of values, along one dim, beside elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range beside(const Pace& pace, const Range& values) {
  if (pace.values == kEntireDim) return {0, pace.elements};
  const int64_t groups = (values.end + pace.values - 1) / pace.values;
  return {values.begin / pace.values * pace.elements, groups * pace.elements};
}

int64_t multiple_of_both(int64_t a, int64_t b) {
  return a == kEntireDim || b == kEntireDim ? kEntireDim : std::lcm(a, b);
}

bool is_power_of_two_scale(DType dtype) { return dtype == DType::F8_E8M0 || dtype == DType::U8; }

}  // namespace

OperandList operand_list(const BlockCodec& codec) noexcept {
  OperandList list;
  const auto add = [&](const CodecOperand& operand) { list.items[list.count++] = operand; };
  add(codes_of(codec));
  if (is_gguf(codec.format)) return list;
  add(scales_of(codec));
  if (codec.zero_points) add(zero_points_of(codec));
  if (codec.global_scale != GlobalScale::none) {
    add({OperandRole::global_scale, DType::F32, {kEntireDim, 1}, {kEntireDim, 1}});
  }
  if (has_table(codec)) add(table_of(codec));
  if (codec.group_index) add({OperandRole::group_index, DType::I32, {1, 1}, {kEntireDim, 1}});
  return list;
}

std::vector<CodecOperand> operands_of(const BlockCodec& codec) {
  const OperandList list = operand_list(codec);
  return {list.items.begin(), list.items.begin() + static_cast<std::ptrdiff_t>(list.count)};
}

Granule decode_granule(const BlockCodec& codec) {
  const CodecOperand codes = codes_of(codec);
  return {codes.rows.values, codes.cols.values};
}

Granule encode_granule(const BlockCodec& codec) {
  const Granule words = decode_granule(codec);
  return {multiple_of_both(words.rows, codec.block_rows),
          multiple_of_both(words.cols, codec.block_cols)};
}

ValueBox operand_box(const CodecOperand& operand, const ValueBox& values) {
  const Range rows = beside(operand.rows, {values.row_begin, values.row_end});
  const Range cols = beside(operand.cols, {values.col_begin, values.col_end});
  return {rows.begin, rows.end, cols.begin, cols.end};
}

bool can_encode(const BlockCodec& codec) noexcept {
  if (codec.global_scale != GlobalScale::none) return false;
  if (codec.format == BlockFormat::e2m1) return is_power_of_two_scale(codec.scale_dtype);
  if (codec.format != BlockFormat::fp8) return false;
  return codec.scale_dtype == DType::F32 || is_power_of_two_scale(codec.scale_dtype);
}

bool is_gguf(BlockFormat format) noexcept { return format >= BlockFormat::q4_0; }

GgufBlock gguf_block(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::q4_0:
    case BlockFormat::iq4_nl:
      return {32, 18};
    case BlockFormat::q4_1:
      return {32, 20};
    case BlockFormat::q5_0:
      return {32, 22};
    case BlockFormat::q5_1:
      return {32, 24};
    case BlockFormat::q8_0:
      return {32, 34};
    case BlockFormat::q2_k:
      return {256, 84};
    case BlockFormat::q3_k:
      return {256, 110};
    case BlockFormat::q4_k:
      return {256, 144};
    case BlockFormat::q5_k:
      return {256, 176};
    case BlockFormat::q6_k:
      return {256, 210};
    case BlockFormat::fp8:
    case BlockFormat::e2m1:
    case BlockFormat::packed:
    case BlockFormat::gptq:
    case BlockFormat::awq:
    case BlockFormat::int8:
    case BlockFormat::table4:
    case BlockFormat::table8:
      break;
  }
  return {};
}

int64_t fields_of_word(const BlockCodec& codec) noexcept {
  return codec.format == BlockFormat::awq ? 8 : 32 / codec.bits;
}

bool has_packed_zeros(const BlockCodec& codec) noexcept {
  switch (codec.format) {
    case BlockFormat::gptq:
    case BlockFormat::awq:
      return true;
    case BlockFormat::packed:
      return codec.block_rows != kEntireDim;
    default:
      return false;
  }
}

BoundOperands bind_operands(const BlockCodec& codec, const ValueBox& box,
                            std::span<const OperandView> views) noexcept {
  const OperandList list = operand_list(codec);
  BoundOperands bound;
  for (size_t i = 0; i < list.count; ++i) {
    const CodecOperand& operand = list.items[i];
    bound.by_role[static_cast<size_t>(operand.role)] = {views[i].data, views[i].row_bytes,
                                                        bits(operand.dtype) / 8, operand.dtype,
                                                        operand_box(operand, box)};
  }
  return bound;
}

BoundOutputs bind_outputs(const BlockCodec& codec, const ValueBox& box,
                          std::span<const OperandSpan> spans) noexcept {
  const OperandView views[] = {{spans[0].data, spans[0].row_bytes},
                               {spans[1].data, spans[1].row_bytes}};
  const BoundOperands bound = bind_operands(codec, box, views);
  return {bound.of(OperandRole::codes), bound.of(OperandRole::scales), spans[0].data,
          spans[1].data};
}

float largest_code(const BlockCodec& codec) noexcept {
  if (codec.format == BlockFormat::e2m1) return 6;
  return codec.code_dtype == DType::F8_E5M2 ? 57344 : 448;
}

}  // namespace weightloom
