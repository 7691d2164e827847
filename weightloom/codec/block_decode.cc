// Decodes a box in chunks of columns: what stands beside the columns of a chunk is brought into F32
// once for all rows that share it; then codes of a row become numbers, and numbers values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "weightloom/codec/block_codec.h"
#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/code_rows_internal.h"
#include "weightloom/codec/code_unpack_internal.h"
#include "weightloom/codec/exact_floats_internal.h"
#include "weightloom/codec/lookup_rows_internal.h"

namespace weightloom {
namespace {

/// Columns at a time: whole words and whole blocks of GGUF.
constexpr int64_t kChunk = 2048;
/// Rows at a time: so few that memory is read and written nearly in order.
constexpr int64_t kBand = 16;
/// Columns of F8_E4M3 that share a table are a multiple of this, a vector of codes.
constexpr int64_t kFloatStep = 64;
constexpr int64_t kRoom = kChunk + kRowSlack;

constexpr int64_t kNoGroup = -1;
constexpr uint32_t kNaN = 0x7fc00000;

constexpr float kE2m1[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

constexpr float kIntegers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

constexpr float kEightLess[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float kIq4Numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

bool is_power_of_two(DType dtype) { return dtype == DType::F8_E8M0 || dtype == DType::U8; }

float power_of_two(std::byte exponent) {
  const auto biased = std::to_integer<uint32_t>(exponent);
  if (biased == 255) return std::bit_cast<float>(kNaN);
  return std::bit_cast<float>(biased == 0 ? uint32_t{0x00400000} : biased << 23);
}

/// `count` elements in F32.
void to_floats(DType dtype, const std::byte* in, int64_t count, float* out) {
  if (!is_power_of_two(dtype)) {
    cast(dtype, DType::F32, in, reinterpret_cast<std::byte*>(out), count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = power_of_two(in[i]);
}

/// As std::fill_n; most groups are of 16 and more, which are a few stores.
void fill_columns(float* out, int64_t count, float value) {
  for (; count >= 16; count -= 16, out += 16) {
    for (int i = 0; i < 16; ++i) out[i] = value;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = value;
}

int64_t group_of(int64_t place, int64_t block) { return block == kEntireDim ? 0 : place / block; }

class BoxDecoder {
 public:
  BoxDecoder(const BlockCodec& codec, const ValueBox& box, const BoundOperands& operands,
             const ValueRows& out)
      : codec_(codec), box_(box), operands_(operands), out_(out) {
    set_kind();
    set_table();
  }

  int64_t run() {
    int64_t lost = 0;
    for (int64_t row = box_.row_begin; row < box_.row_end; row += kBand) {
      const int64_t row_end = std::min(box_.row_end, row + kBand);
      for (int64_t col = box_.col_begin; col < box_.col_end; col += kChunk) {
        first_col_ = col;
        row_.count = std::min(kChunk, box_.col_end - col);
        lost += decode_band(row, row_end);
      }
    }
    return lost;
  }

 private:
  const BoundOperand& codes() const { return operands_.of(OperandRole::codes); }

  void set_kind() {
    row_.scales = scales_;
    row_.zeros = zeros_;
    row_.offsets = offsets_;
    row_.factor = codec_.factor;
    switch (codec_.format) {
      case BlockFormat::fp8:
        row_.kind = codec_.code_dtype == DType::F8_E5M2 ? CodeKind::e5m2 : CodeKind::e4m3;
        return;
      case BlockFormat::e2m1:
      case BlockFormat::table4:
        row_.kind = CodeKind::table16;
        return;
      case BlockFormat::table8:
        row_.kind = CodeKind::table256;
        row_.steps = RowSteps::scale_offset;
        std::fill_n(offsets_, kRoom, codec_.offset);
        return;
      case BlockFormat::int8:
        row_.kind = CodeKind::signed8;
        row_.steps = RowSteps::zero_scale_factor;
        return;
      case BlockFormat::packed:
      case BlockFormat::gptq:
      case BlockFormat::awq:
        row_.kind = CodeKind::unsigned8;
        row_.steps = RowSteps::zero_scale;
        return;
      default:
        break;
    }
    const bool has_offsets = format_has_offsets(codec_.format);
    std::fill_n(scales_, kRoom, 0.0F);
    std::fill_n(offsets_, kRoom, 0.0F);
    row_.kind = has_offsets ? CodeKind::unsigned8 : CodeKind::signed8;
    row_.steps = has_offsets ? RowSteps::scale_offset : RowSteps::scale;
  }

  void set_table() {
    row_.table = table_;
    if (codec_.format == BlockFormat::e2m1) std::copy_n(kE2m1, 16, table_);
    const BoundOperand& table = operands_.of(OperandRole::table);
    if (table.data == nullptr) return;
    std::memcpy(table_, table.data, static_cast<size_t>(table.box.cols()) * sizeof(float));
  }

  int64_t decode_band(int64_t row_begin, int64_t row_end) {
    int64_t lost = 0;
    group_ = kNoGroup;
    for (int64_t row = row_begin; row < row_end; ++row) lost += decode_row(row);
    return lost;
  }

  int64_t decode_row(int64_t row) {
    if (is_gguf(codec_.format)) {
      take_blocks(row);
    } else {
      const int64_t group = row_group(row);
      if (group != group_) take_group(group);
      row_.codes = take_codes(row);
    }
    std::byte* out = out_.data + (row - box_.row_begin) * out_.row_bytes +
                     (first_col_ - box_.col_begin) * (bits(out_.dtype) / 8);
    if (has_tables_ && look_up(out)) return 0;
    if (!is_spread_) spread_group();
    return write(out);
  }

  void take_blocks(int64_t row) {
    const GgufBlock block = gguf_block(codec_.format);
    const std::byte* in = codes().at(row, first_col_ / block.values * block.bytes);
    groups_ = row_.count / block.values;
    row_.codes = reinterpret_cast<const std::byte*>(codes_);
    if (block.values == 256) {
      unpack_gguf_256(codec_.format, in, groups_, {codes_, scales_, offsets_});
      return;
    }
    unpack_gguf_32(codec_.format, in, groups_, {codes_, group_scales_, group_offsets_});
    has_tables_ = may_look_up() && fill_group_tables();
    is_spread_ = false;
  }

  int64_t row_group(int64_t row) const {
    if (!codec_.group_index) return group_of(row, codec_.block_rows);
    int32_t index = 0;
    std::memcpy(&index, operands_.of(OperandRole::group_index).at(row, 0), sizeof(index));
    // All indexes that there is nothing for are one group.
    return index < 0 || index >= codec_.groups ? codec_.groups : index;
  }

  /// Scales and zeros of the chunk's groups of columns in a group of rows, and tables if they fit.
  void take_group(int64_t group) {
    group_ = group;
    const int64_t first = group_of(first_col_, codec_.block_cols);
    groups_ = group_of(first_col_ + row_.count - 1, codec_.block_cols) - first + 1;
    if (codec_.group_index && group == codec_.groups) {
      std::fill_n(group_scales_, groups_, std::bit_cast<float>(kNaN));
      std::fill_n(group_zeros_, groups_, 0.0F);
    } else {
      take_scales(group, first);
      if (has_zeros()) take_zeros(group, first);
    }
    has_tables_ = may_look_up() && fill_group_tables();
    is_spread_ = false;
  }

  bool has_zeros() const {
    return row_.steps == RowSteps::zero_scale || row_.steps == RowSteps::zero_scale_factor;
  }

  void take_scales(int64_t group, int64_t first) {
    const BoundOperand& scales = operands_.of(OperandRole::scales);
    to_floats(scales.dtype, scales.at(group, first), groups_, group_scales_);
    if (codec_.global_scale == GlobalScale::none) return;
    float global = 0;
    std::memcpy(&global, operands_.of(OperandRole::global_scale).data, sizeof(global));
    const bool multiplies = codec_.global_scale == GlobalScale::multiplies;
    for (int64_t i = 0; i < groups_; ++i) {
      group_scales_[i] = multiplies ? group_scales_[i] * global : group_scales_[i] / global;
    }
  }

  void take_zeros(int64_t group, int64_t first) {
    const int middle = codec_.format == BlockFormat::packed ? 1 << (codec_.bits - 1) : 0;
    for (int64_t i = 0; i < groups_; ++i) {
      group_zeros_[i] = static_cast<float>(middle + zero_of(group, first + i));
    }
  }

  /// Brings what stands beside groups of columns beside each column.
  void spread_group() {
    spread(group_scales_, scales_);
    if (row_.steps == RowSteps::scale_offset && is_gguf(codec_.format)) {
      spread(group_offsets_, offsets_);
    }
    if (is_gguf(codec_.format)) numbers_of_codes(codec_.format, codes_, row_.count);
    if (has_zeros()) spread(group_zeros_, zeros_);
    is_spread_ = true;
  }

  void spread(const float* value, float* out) const {
    std::fill_n(out + row_.count, kRowSlack, 0.0F);
    const int64_t block = groups_ == 1 ? row_.count : block_cols();
    if (block == 1) {
      std::copy_n(value, row_.count, out);
      return;
    }
    int64_t next = groups_ == 1 ? block : block - first_col_ % block;
    for (int64_t i = 0; i < row_.count; ++value) {
      fill_columns(out + i, next - i, *value);
      i = next;
      next = std::min(next + block, row_.count);
    }
  }

  /// Columns of a group.
  int64_t block_cols() const {
    return is_gguf(codec_.format) ? gguf_block(codec_.format).values : codec_.block_cols;
  }
  /// Columns that share a table.
  int64_t table_cols() const { return groups_ == 1 ? kChunk : block_cols(); }

  bool may_look_up() const {
    if (out_.dtype != DType::BF16) return false;
    const bool is_nibbles = codec_.format == BlockFormat::packed && codec_.bits == 4;
    const bool is_table =
        is_nibbles || row_.kind == CodeKind::table16 || numbers_of_nibbles() != nullptr;
    if (!is_table && row_.kind != CodeKind::e4m3) return false;
    const int64_t step = is_table ? kLookupStep : kFloatStep;
    return groups_ == 1 || (block_cols() % step == 0 && first_col_ % block_cols() == 0);
  }

  /// What the nibbles of GGUF stand for; null for other formats.
  const float* numbers_of_nibbles() const {
    if (codec_.format == BlockFormat::q4_0) return kEightLess;
    if (codec_.format == BlockFormat::q4_1) return kIntegers;
    return codec_.format == BlockFormat::iq4_nl ? kIq4Numbers : nullptr;
  }

  bool fill_group_tables() {
    const std::span<LookupTable> tables(tables_, static_cast<size_t>(groups_));
    if (row_.kind == CodeKind::e4m3) {
      for (size_t i = 0; i < tables.size(); ++i) {
        if (!fill_e4m3_table(group_scales_[i], tables[i])) return false;
      }
      return true;
    }
    if (const float* numbers = numbers_of_nibbles(); numbers != nullptr) {
      return fill_tables({.numbers = numbers,
                          .scales = group_scales_,
                          .offsets = format_has_offsets(codec_.format) ? group_offsets_ : nullptr},
                         tables);
    }
    const bool is_table = row_.kind == CodeKind::table16;
    return fill_tables({.numbers = is_table ? table_ : kIntegers,
                        .scales = group_scales_,
                        .zeros = is_table ? nullptr : group_zeros_},
                       tables);
  }

  bool look_up(std::byte* out) {
    const std::span<const LookupTable> tables(tables_, static_cast<size_t>(groups_));
    if (row_.kind == CodeKind::e4m3) {
      return look_up_e4m3(row_.codes, row_.count, table_cols(), tables, out);
    }
    look_up_codes(codes_, row_.count, table_cols(), tables, out);
    return true;
  }

  int zero_of(int64_t group, int64_t across) const {
    if (!codec_.zero_points) return 0;
    const BoundOperand& zeros = operands_.of(OperandRole::zero_points);
    if (!has_packed_zeros(codec_)) {
      return static_cast<int8_t>(std::to_integer<uint8_t>(*zeros.at(group, across)));
    }
    const int64_t fields = fields_of_word(codec_);
    const auto width = static_cast<int>(32 / fields);
    const bool is_packed = codec_.format == BlockFormat::packed;
    uint32_t word = 0;
    std::memcpy(&word,
                is_packed ? zeros.at(group / fields, across) : zeros.at(group, across / fields),
                sizeof(word));
    int64_t place = (is_packed ? group : across) % fields;
    if (codec_.format == BlockFormat::awq) place = kAwqFields[static_cast<size_t>(place)];
    const auto field = static_cast<int>((word >> (place * width)) & ((uint32_t{1} << width) - 1));
    if (is_packed) return field - (1 << (width - 1));
    return codec_.format == BlockFormat::gptq ? (field + codec_.zero_bias) & ((1 << width) - 1)
                                              : field;
  }

  /// The codes of the chunk in a row, one to a byte.
  const std::byte* take_codes(int64_t row) {
    const int64_t fields = fields_of_word(codec_);
    const int64_t words = (row_.count + fields - 1) / fields;
    switch (codec_.format) {
      case BlockFormat::e2m1:
        unpack_low_first(codes().at(row, first_col_ / 2), (row_.count + 1) / 2, codes_);
        break;
      case BlockFormat::table4:
        unpack_high_first(codes().at(row, first_col_ / 2), (row_.count + 1) / 2, codes_);
        break;
      case BlockFormat::packed:
        if (codec_.bits == 8) return codes().at(row, first_col_ / fields);
        if (codec_.bits == 4) {
          unpack_low_first(codes().at(row, first_col_ / fields), words * 4, codes_);
        } else {
          unpack_fields(codes().at(row, first_col_ / fields), words, codec_.bits, codes_);
        }
        break;
      case BlockFormat::awq:
        unpack_awq(codes().at(row, first_col_ / fields), words, codes_);
        break;
      case BlockFormat::gptq:
        pick_fields(codes().at(row / fields, first_col_), row_.count, codec_.bits, row % fields,
                    codes_);
        break;
      default:
        return codes().at(row, first_col_);
    }
    return reinterpret_cast<const std::byte*>(codes_);
  }

  /// Writes the chunk of a row, and gives how many values are not finite.
  int64_t write(std::byte* out) {
    if (out_.dtype == DType::BF16 && row_to_bf16(row_, out) < kBf16Overflow) return 0;
    std::byte* numbers = reinterpret_cast<std::byte*>(numbers_);
    const uint32_t largest = row_to_f32(row_, out_.dtype == DType::F32 ? out : numbers);
    if (out_.dtype == DType::F32 && largest < kF32Infinity) return 0;
    if (out_.dtype == DType::F32) {
      std::memcpy(numbers, out, static_cast<size_t>(row_.count) * sizeof(float));
    }
    const int64_t lost = largest < kF32Infinity ? 0 : settle();
    return lost + cast(DType::F32, out_.dtype, numbers, out, row_.count);
  }

  /// Every NaN becomes the one NaN; gives how many numbers are not finite.
  int64_t settle() {
    int64_t lost = 0;
    for (int64_t i = 0; i < row_.count; ++i) {
      if (std::isnan(numbers_[i])) numbers_[i] = std::bit_cast<float>(kNaN);
      lost += std::isfinite(numbers_[i]) ? 0 : 1;
    }
    return lost;
  }

  const BlockCodec& codec_;
  const ValueBox& box_;
  const BoundOperands& operands_;
  const ValueRows& out_;
  CodeRow row_;
  int64_t first_col_ = 0;
  int64_t group_ = kNoGroup;  // of rows, whose scales and zeros are taken
  int64_t groups_ = 0;        // of columns in the chunk
  bool has_tables_ = false;   // for the group
  bool is_spread_ = true;     // the group's scales and zeros stand beside each column
  alignas(64) float scales_[kRoom];
  alignas(64) float zeros_[kRoom];
  alignas(64) float offsets_[kRoom];
  alignas(64) float group_scales_[kRoom];
  alignas(64) float group_zeros_[kRoom];
  alignas(64) float group_offsets_[kRoom];
  alignas(64) float numbers_[kRoom];
  alignas(64) float table_[256];
  alignas(64) uint8_t codes_[kRoom];
  LookupTable tables_[kChunk / kLookupStep];
};

}  // namespace

int64_t decode(const BlockCodec& codec, const ValueBox& box, std::span<const OperandView> operands,
               const ValueRows& out) noexcept {
  const ExactFloats exact;
  const BoundOperands bound = bind_operands(codec, box, operands);
  return BoxDecoder(codec, box, bound, out).run();
}

}  // namespace weightloom
