// What the parts of the block codecs share: shapes of formats, and where operands lie in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weightloom/codec/block_codec.h"

namespace weightloom {

/// Values of a GGUF block, and the bytes that hold them.
struct GgufBlock {
  int64_t values = 0;  ///< along a row
  int64_t bytes = 0;   ///< as stored
};
/// True of the formats of GGUF.
bool is_gguf(BlockFormat format) noexcept;
/// The block of a format of GGUF.
GgufBlock gguf_block(BlockFormat format) noexcept;

/// Fields of a word of packed integers.
int64_t fields_of_word(const BlockCodec& codec) noexcept;
/// Zero points are fields of words, not an I8 each.
bool has_packed_zeros(const BlockCodec& codec) noexcept;

/// Field i of a word of awq stands for column (0 2 4 6 1 3 5 7)[i]: the field of each column.
inline constexpr std::array<int, 8> kAwqFields = {0, 4, 1, 5, 2, 6, 3, 7};

inline constexpr size_t kMostOperands = 6;  ///< one of each role

/// operands_of without memory of its own.
struct OperandList {
  std::array<CodecOperand, kMostOperands> items;  ///< in order
  size_t count = 0;                               ///< of them in use
};
/// As operands_of.
OperandList operand_list(const BlockCodec& codec) noexcept;

/// An operand's box in memory, addressed by places in the whole operand.
struct BoundOperand {
  const std::byte* data = nullptr;  ///< of the box's first element; null if there is none
  int64_t row_bytes = 0;            ///< from one row to the next
  int64_t element_bytes = 0;        ///< of one element
  DType dtype = DType::U8;          ///< of elements
  ValueBox box;                     ///< what of the operand lies there

  /// Bytes from data to the element at a row and a column of the operand.
  int64_t offset(int64_t row, int64_t col) const noexcept {
    return (row - box.row_begin) * row_bytes + (col - box.col_begin) * element_bytes;
  }
  /// The element at a row and a column of the operand.
  const std::byte* at(int64_t row, int64_t col) const noexcept { return data + offset(row, col); }
};

/// Operands by their role.
struct BoundOperands {
  std::array<BoundOperand, kMostOperands> by_role;  ///< in the order of OperandRole

  /// The operand of a role; without data if the codec has none.
  const BoundOperand& of(OperandRole role) const noexcept {
    return by_role[static_cast<size_t>(role)];
  }
};
/// Where the operands of a box lie. Precondition: as decode's.
BoundOperands bind_operands(const BlockCodec& codec, const ValueBox& box,
                            std::span<const OperandView> views) noexcept;

/// Codes and scales that an encoder writes.
struct BoundOutputs {
  BoundOperand codes;               ///< where codes lie, by offset()
  BoundOperand scales;              ///< where scales lie, by offset()
  std::byte* code_data = nullptr;   ///< what codes' offsets count from
  std::byte* scale_data = nullptr;  ///< what scales' offsets count from
};
/// Where the outputs of a box lie. Precondition: as encode's.
BoundOutputs bind_outputs(const BlockCodec& codec, const ValueBox& box,
                          std::span<const OperandSpan> spans) noexcept;

/// The largest finite value of the codes.
float largest_code(const BlockCodec& codec) noexcept;

}  // namespace weightloom
