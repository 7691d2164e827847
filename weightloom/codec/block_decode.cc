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
#include "weightloom/codec/group_terms_internal.h"
#include "weightloom/codec/lookup_rows_internal.h"

namespace weightloom {
namespace {

/// Columns at a time: whole words and whole blocks of GGUF.
constexpr int64_t kChunk = kMostGroups;
/// Rows at a time, where rows share something: so few that memory is read and written nearly in
/// order.
constexpr int64_t kBand = 16;
/// Columns of F8_E4M3 that share a table are a multiple of this, a vector of codes.
constexpr int64_t kFloatStep = 64;
constexpr int64_t kRoom = kChunk + kRowSlack;

constexpr int64_t kNoGroup = -1;
constexpr int kWholeChunk = 30;  // the logarithm of a run longer than any chunk
constexpr uint32_t kNaN = 0x7fc00000;

constexpr float kE2m1[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

constexpr float kIntegers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// As std::fill_n; most groups are of 16 and more, which are a few stores.
void fill_columns(float* out, int64_t count, float value) {
  for (; count >= 16; count -= 16, out += 16) {
    for (int i = 0; i < 16; ++i) out[i] = value;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = value;
}

class BoxDecoder {
 public:
  BoxDecoder(const BlockCodec& codec, const ValueBox& box, const BoundOperands& operands,
             const ValueRows& out)
      : codec_(codec), box_(box), operands_(operands), terms_(codec, operands), out_(out) {
    set_kind();
    set_table();
  }

  int64_t run() {
    int64_t lost = 0;
    const int64_t band = rows_share() ? kBand : 1;
    for (int64_t row = box_.row_begin; row < box_.row_end; row += band) {
      const int64_t row_end = std::min(box_.row_end, row + band);
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

  /// Rows have words or scales in common.
  bool rows_share() const {
    if (is_gguf(codec_.format)) return false;
    return codec_.block_rows != 1 || codec_.format == BlockFormat::gptq || codec_.group_index;
  }

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
        row_.kind = codec_.format == BlockFormat::gptq ? CodeKind::fields : CodeKind::unsigned8;
        row_.steps = RowSteps::zero_scale;
        row_.mask = (1 << codec_.bits) - 1;
        return;
      default:
        break;
    }
    const bool has_offsets = format_has_offsets(codec_.format);
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
      const int64_t group = terms_.row_group(row);
      if (group != group_) take_group(group);
      row_.codes = take_codes(row);
    }
    std::byte* out = out_.data + (row - box_.row_begin) * out_.row_bytes +
                     (first_col_ - box_.col_begin) * (bits(out_.dtype) / 8);
    if (look_up(out)) return 0;
    if (!is_spread_) spread_group();
    return write(out);
  }

  void take_blocks(int64_t row) {
    const GgufBlock block = gguf_block(codec_.format);
    const std::byte* in = codes().at(row, first_col_ / block.values * block.bytes);
    groups_ = row_.count / block_cols();
    row_.codes = reinterpret_cast<const std::byte*>(codes_);
    unpack_gguf(codec_.format, in, row_.count / block.values,
                {codes_, group_scales_, group_offsets_});
    set_tables();
  }

  /// Scales and zeros of the chunk's groups of columns in a group of rows, and tables if they fit.
  void take_group(int64_t group) {
    group_ = group;
    const int64_t first = group_of(first_col_, codec_.block_cols);
    groups_ = group_of(first_col_ + row_.count - 1, codec_.block_cols) - first + 1;
    terms_.take_scales(group, first, groups_, group_scales_);
    if (has_zeros()) terms_.take_zeros(group, first, groups_, group_zeros_);
    set_tables();
  }

  bool has_zeros() const {
    return row_.steps == RowSteps::zero_scale || row_.steps == RowSteps::zero_scale_factor;
  }

  /// Puts what stands beside groups of columns beside runs, if they are such, or each column.
  void spread_group() {
    const auto block = static_cast<uint64_t>(block_cols());
    row_.has_runs = groups_ == 1 || (has_whole_groups(kRun) && std::has_single_bit(block));
    row_.run_log2 = groups_ == 1 ? kWholeChunk : std::countr_zero(block);
    row_.scales = spread(group_scales_, scales_);
    if (has_zeros()) row_.zeros = spread(group_zeros_, zeros_);
    if (is_gguf(codec_.format)) {
      if (row_.steps == RowSteps::scale_offset) row_.offsets = spread(group_offsets_, offsets_);
      numbers_of_nibbles(codec_.format, codes_, row_.count);
    }
    is_spread_ = true;
  }

  const float* spread(float* value, float* out) const {
    if (row_.has_runs) return value;
    const int64_t block = block_cols();
    if (block == 1) out = value;
    std::fill_n(out + row_.count, kRowSlack, 0.0F);
    if (block == 1) return out;
    int64_t next = block - first_col_ % block;
    for (int64_t i = 0; i < row_.count; ++value) {
      fill_columns(out + i, next - i, *value);
      i = next;
      next = std::min(next + block, row_.count);
    }
    return out;
  }

  /// Columns of a group.
  int64_t block_cols() const {
    return is_gguf(codec_.format) ? values_of_part(codec_.format) : codec_.block_cols;
  }

  /// There is one group in the chunk; or they begin with it, and are of whole steps.
  bool has_whole_groups(int64_t step) const {
    return groups_ == 1 || (block_cols() % step == 0 && first_col_ % block_cols() == 0);
  }

  /// What 16 codes stand for, if the format has no more; else null.
  const float* numbers_of_codes() const {
    if (row_.kind == CodeKind::table16) return table_;
    if (codec_.format == BlockFormat::packed && codec_.bits == 4) return kIntegers;
    return is_gguf(codec_.format) ? table_of_nibbles(codec_.format) : nullptr;
  }

  void set_tables() {
    is_spread_ = false;
    looked_up_ = nullptr;
    has_float_tables_ = false;
    if (out_.dtype != DType::BF16) return;
    if (has_whole_groups(kLookupStep)) looked_up_ = numbers_of_codes();
    if (row_.kind == CodeKind::e4m3 && has_whole_groups(kFloatStep)) {
      has_float_tables_ = fill_float_tables();
    }
  }

  bool fill_float_tables() {
    for (int64_t i = 0; i < groups_; ++i) {
      if (!fill_e4m3_table(group_scales_[i], tables_[i])) return false;
    }
    return true;
  }

  bool look_up(std::byte* out) const {
    const int64_t group = groups_ == 1 ? kChunk : block_cols();
    if (has_float_tables_) {
      const std::span<const LookupTable> tables(tables_, static_cast<size_t>(groups_));
      return look_up_e4m3(row_.codes, row_.count, group, tables, out);
    }
    if (looked_up_ == nullptr) return false;
    const bool has_offsets = is_gguf(codec_.format) && row_.steps == RowSteps::scale_offset;
    return look_up_codes({.codes = codes_,
                          .count = row_.count,
                          .group = group,
                          .numbers = looked_up_,
                          .scales = group_scales_,
                          .zeros = has_zeros() ? group_zeros_ : nullptr,
                          .offsets = has_offsets ? group_offsets_ : nullptr},
                         out);
  }

  /// The codes of the chunk in a row, one to a byte; those of gptq in their words.
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
        unpack_words(codec_, codes().at(row, first_col_ / fields), words, codes_);
        break;
      case BlockFormat::awq:
        unpack_words(codec_, codes().at(row, first_col_ / fields), words, codes_);
        break;
      case BlockFormat::gptq:
        row_.shift = static_cast<int>(row % fields) * codec_.bits;
        return codes().at(row / fields, first_col_);
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
  const GroupTerms terms_;
  const ValueRows& out_;
  CodeRow row_;
  int64_t first_col_ = 0;
  int64_t group_ = kNoGroup;          // of rows, whose scales and zeros are taken
  int64_t groups_ = 0;                // of columns in the chunk
  const float* looked_up_ = nullptr;  // what codes of the chunk stand for, if they are few
  bool has_float_tables_ = false;     // for the group
  bool is_spread_ = true;  // the group's scales and zeros stand beside each column, or each run
  alignas(64) float scales_[kRoom];
  alignas(64) float zeros_[kRoom];
  alignas(64) float offsets_[kRoom];
  alignas(64) float group_scales_[kRoom];
  alignas(64) float group_zeros_[kRoom];
  alignas(64) float group_offsets_[kRoom];
  alignas(64) float numbers_[kRoom];
  alignas(64) float table_[256];
  alignas(64) uint8_t codes_[kRoom] = {};
  LookupTable tables_[kChunk / kFloatStep];
};

}  // namespace

int64_t decode(const BlockCodec& codec, const ValueBox& box, std::span<const OperandView> operands,
               const ValueRows& out) noexcept {
  const ExactFloats exact;
  const BoundOperands bound = bind_operands(codec, box, operands);
  return BoxDecoder(codec, box, bound, out).run();
}

}  // namespace weightloom
