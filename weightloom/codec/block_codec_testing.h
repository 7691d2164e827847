// For tests and fuzzing: operands of block codecs, whole and cut to a box, each in memory of
// exactly its size; and the vectors held against the reference.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "weightloom/codec/block_codec.h"
#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/cast_testing.h"

namespace weightloom::testing {

/// Rows of elements without gaps.
struct Matrix {
  ValueBox box;
  int64_t element_bytes = 1;
  std::vector<std::byte> bytes;

  Matrix(const ValueBox& of, DType dtype)
      : box(of),
        element_bytes(bits(dtype) / 8),
        bytes(static_cast<size_t>(of.rows() * of.cols() * element_bytes)) {}

  int64_t row_bytes() const { return box.cols() * element_bytes; }
  std::byte* at(int64_t row, int64_t col) {
    return bytes.data() + (row - box.row_begin) * row_bytes() +
           (col - box.col_begin) * element_bytes;
  }
};

/// All operands of a box of values.
inline std::vector<Matrix> operands_for(const BlockCodec& codec, const ValueBox& box) {
  std::vector<Matrix> operands;
  for (const CodecOperand& operand : operands_of(codec)) {
    operands.emplace_back(operand_box(operand, box), operand.dtype);
  }
  return operands;
}

inline std::vector<OperandView> views_of(std::vector<Matrix>& operands) {
  std::vector<OperandView> views;
  for (Matrix& operand : operands) views.push_back({operand.bytes.data(), operand.row_bytes()});
  return views;
}

inline std::vector<OperandSpan> spans_of(std::vector<Matrix>& operands) {
  std::vector<OperandSpan> spans;
  for (Matrix& operand : operands) spans.push_back({operand.bytes.data(), operand.row_bytes()});
  return spans;
}

/// What of whole operands lies beside a box.
inline std::vector<Matrix> cut(const BlockCodec& codec, std::vector<Matrix>& whole,
                               const ValueBox& box) {
  std::vector<Matrix> parts = operands_for(codec, box);
  for (size_t i = 0; i < parts.size(); ++i) {
    Matrix& part = parts[i];
    for (int64_t row = part.box.row_begin; row < part.box.row_end; ++row) {
      if (part.row_bytes() == 0) continue;
      std::memcpy(part.at(row, part.box.col_begin), whole[i].at(row, part.box.col_begin),
                  static_cast<size_t>(part.row_bytes()));
    }
  }
  return parts;
}

/// Values of a box, and how many are not finite.
struct Decoded {
  std::vector<std::byte> bytes;
  int64_t not_finite = 0;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

/// `run` is decode or decode_reference. Rows lie `gap` bytes apart, which must stay as they are.
template <typename Run>
Decoded decoded_by(Run run, const BlockCodec& codec, const ValueBox& box,
                   std::vector<Matrix>& operands, DType dtype, int64_t gap = 0) {
  const int64_t row_bytes = box.cols() * (bits(dtype) / 8) + gap;
  Decoded made;
  made.bytes.assign(static_cast<size_t>(box.rows() * row_bytes), std::byte{0xee});
  made.not_finite = run(codec, box, views_of(operands), {dtype, made.bytes.data(), row_bytes});
  return made;
}

/// Codes and scales of values, and how many of those are not finite.
struct Encoded {
  std::vector<std::vector<std::byte>> operands;
  int64_t not_finite = 0;
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

template <typename Run>
Encoded encoded_by(Run run, const BlockCodec& codec, const ValueBox& box,
                   const std::vector<std::byte>& values) {
  std::vector<Matrix> operands = operands_for(codec, box);
  for (Matrix& operand : operands) {
    std::fill(operand.bytes.begin(), operand.bytes.end(), std::byte{0xee});
  }
  Encoded made;
  made.not_finite =
      run(codec, box, {values.data(), box.cols() * static_cast<int64_t>(sizeof(float))},
          spans_of(operands));
  for (Matrix& operand : operands) made.operands.push_back(operand.bytes);
  return made;
}

/// Rows of groups that there are, some of them none, for codecs that have an index.
inline void make_indexes(const BlockCodec& codec, std::vector<Matrix>& operands, uint64_t& seed) {
  if (!codec.group_index) return;
  Matrix& indexes = operands.back();
  for (int64_t row = indexes.box.row_begin; row < indexes.box.row_end; ++row) {
    const auto draw = static_cast<int64_t>(next_random(seed) % 64);
    const auto index = static_cast<int32_t>(draw == 0 ? -1 : draw % (codec.groups + 1));
    std::memcpy(indexes.at(row, 0), &index, sizeof(index));
  }
}

/// Whole operands of random bytes. Where floats are `tame`, they are of ordinary size.
inline std::vector<Matrix> random_operands(const BlockCodec& codec, const ValueBox& box, bool tame,
                                           uint64_t& seed) {
  std::vector<Matrix> operands = operands_for(codec, box);
  const std::vector<CodecOperand> described = operands_of(codec);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (std::byte& byte : operands[i].bytes) byte = static_cast<std::byte>(next_random(seed));
    const bool is_float = described[i].role != OperandRole::codes && has_cast(described[i].dtype);
    if (!tame || !is_float) continue;
    const auto width = static_cast<size_t>(operands[i].element_bytes);
    for (size_t at = 0; at < operands[i].bytes.size(); at += width) {
      const float value = static_cast<float>(next_random(seed) % 2048) / 700.0F - 1.0F;
      cast(DType::F32, described[i].dtype, reinterpret_cast<const std::byte*>(&value),
           operands[i].bytes.data() + at, 1);
    }
  }
  make_indexes(codec, operands, seed);
  return operands;
}

/// A box that begins and ends at granules, or at the end of the matrix.
inline ValueBox random_box(const Granule& granule, int64_t rows, int64_t cols, uint64_t& seed) {
  const auto range = [&](int64_t step, int64_t size) {
    if (step == kEntireDim) return std::pair<int64_t, int64_t>{0, size};
    const int64_t steps = (size + step - 1) / step;
    const auto a = static_cast<int64_t>(next_random(seed) % static_cast<uint64_t>(steps));
    const auto b = static_cast<int64_t>(next_random(seed) % static_cast<uint64_t>(steps));
    return std::pair<int64_t, int64_t>{std::min(a, b) * step,
                                       std::min(size, (std::max(a, b) + 1) * step)};
  };
  const auto [row_begin, row_end] = range(granule.rows, rows);
  const auto [col_begin, col_end] = range(granule.cols, cols);
  return {row_begin, row_end, col_begin, col_end};
}

}  // namespace weightloom::testing
