// Codecs of quantised tensors: how codes, scales and what else stands beside them make values, and
// how values make them.
//
// A codec looks at one matrix of values, rows × columns (a stack of matrices is done one by one).
// Its operands lie over the matrix at a declared pace: a byte of nibbles beside every 2 columns, a
// scale beside every 128 × 128 values. So whoever wants a box of the values knows which box of each
// operand it takes, and a codec is only ever given those. It knows spans and blocks; no names, no
// files, no layouts. docs/quantisation.md lists the schemes that are made of these.
// Thread safety: values, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Stands for a whole dim, however long it is.
inline constexpr int64_t kEntireDim = 0;

/// How codes become values.
enum class BlockFormat {
  fp8,     ///< F8_E4M3 or F8_E5M2 codes × scale
  e2m1,    ///< pairs of 4-bit floats in U8, low nibble first, × scale, × or ÷ a global scale
  packed,  ///< unsigned fields in I32 along the columns, low first: (q − 2^(bits−1) − zero) × scale
  gptq,    ///< unsigned fields in I32 along the rows, low first: (q − zero) × scale, where zero is
           ///< (field + zero_bias) mod 2^bits
  awq,     ///< unsigned 4-bit fields in I32 along the columns, order 0 2 4 6 1 3 5 7: (q − zero) ×
           ///< scale
  int8,    ///< I8 codes: (q − zero) × scale × factor
  table4,  ///< pairs of indexes in U8, high nibble first, into a table of 16: table[q] × scale
  table8,  ///< indexes in U8 into a table of 256: table[q] × scale + offset
  q4_0,    ///< GGUF blocks of 32: F16 scale, nibbles
  q4_1,    ///< GGUF blocks of 32: F16 scale and minimum, nibbles
  q5_0,    ///< GGUF blocks of 32
  q5_1,    ///< GGUF blocks of 32
  q8_0,    ///< GGUF blocks of 32: F16 scale, I8
  q2_k,    ///< GGUF super-blocks of 256
  q3_k,    ///< GGUF super-blocks of 256
  q4_k,    ///< GGUF super-blocks of 256
  q5_k,    ///< GGUF super-blocks of 256
  q6_k,    ///< GGUF super-blocks of 256
  iq4_nl,  ///< GGUF blocks of 32: F16 scale, nibbles into a fixed table
};

/// "fp8", "e2m1", "q4_0": as the enumerators are spelled.
std::string_view to_string(BlockFormat format) noexcept;

/// What a scale for the whole tensor does to the scales of blocks.
enum class GlobalScale { none, multiplies, divides };

/// A format and all that it leaves open.
struct BlockCodec {
  BlockFormat format = BlockFormat::fp8;  ///< how codes become values
  DType code_dtype = DType::F8_E4M3;      ///< of the codes as they are stored
  DType scale_dtype = DType::F32;  ///< F32, F16, BF16, F8_E4M3, or F8_E8M0, which U8 also means
  int64_t block_rows = 1;          ///< rows that share a scale; kEntireDim: all
  int64_t block_cols = 1;          ///< columns that share a scale; kEntireDim: all
  int bits = 8;                    ///< of a field, of the packed integers: 4 or 8
  GlobalScale global_scale = GlobalScale::none;  ///< fp8 and e2m1, before codes are multiplied
  bool zero_points = false;  ///< zero points stand beside scales; without them zero is 0
  /// Row r of values takes its group of scales from an operand of row indexes (gptq, act-order).
  bool group_index = false;
  /// How many groups there are, if there is a group_index; an index outside gives NaN.
  int64_t groups = 0;
  int zero_bias = 0;  ///< gptq: 1 where zero points are stored less one, as its first version does
  float factor = 1;   ///< int8
  float offset = 0;   ///< table8

  friend bool operator==(const BlockCodec&, const BlockCodec&) = default;
};

/// All of a codec in one line, equal for equal codecs only:
/// "fp8 F8_E4M3 scales F32 blocks 128x128".
std::string to_string(const BlockCodec& codec);

/// What stands beside what.
enum class OperandRole { codes, scales, zero_points, global_scale, table, group_index };

/// Along one dim, every `values` values stand beside `elements` elements of an operand; a last
/// group may be short. values == kEntireDim: all of the dim beside all of the operand's `elements`.
struct Pace {
  int64_t values = 1;    ///< of the matrix
  int64_t elements = 1;  ///< of the operand
  friend bool operator==(const Pace&, const Pace&) = default;
};

/// An operand of a codec, and how it lies over the matrix of values.
struct CodecOperand {
  OperandRole role = OperandRole::codes;  ///< what it is to the codec
  DType dtype = DType::U8;                ///< of its elements
  Pace rows;                              ///< of rows
  Pace cols;                              ///< of columns
  friend bool operator==(const CodecOperand&, const CodecOperand&) = default;
};

/// The operands of a codec, in the order in which decode and encode take them (that of
/// OperandRole); those that the codec does not have are left out.
std::vector<CodecOperand> operands_of(const BlockCodec& codec);

/// Boxes of values begin at multiples of this, and end at one or at the end of the dim.
struct Granule {
  int64_t rows = 1;  ///< kEntireDim: all
  int64_t cols = 1;  ///< kEntireDim: all
  friend bool operator==(const Granule&, const Granule&) = default;
};
/// What decode needs: whole words, whole GGUF blocks.
Granule decode_granule(const BlockCodec& codec);
/// What encode needs: whole blocks of a scale. kEntireDim where a block is a whole dim.
Granule encode_granule(const BlockCodec& codec);

/// Rows and columns [begin, end) of the matrix of values.
struct ValueBox {
  int64_t row_begin = 0;  ///< the first row
  int64_t row_end = 0;    ///< after the last row
  int64_t col_begin = 0;  ///< the first column
  int64_t col_end = 0;    ///< after the last column

  /// How many rows.
  int64_t rows() const noexcept { return row_end - row_begin; }
  /// How many columns.
  int64_t cols() const noexcept { return col_end - col_begin; }
};

/// The box of an operand that lies beside a box of values: from ⌊begin/values⌋·elements to
/// ⌈end/values⌉·elements along each dim.
ValueBox operand_box(const CodecOperand& operand, const ValueBox& values);

/// An operand's box in memory, row by row; needs no alignment.
struct OperandView {
  const std::byte* data = nullptr;  ///< the first element of operand_box
  int64_t row_bytes = 0;            ///< from one row to the next
};
/// The same, to write.
struct OperandSpan {
  std::byte* data = nullptr;  ///< the first element of operand_box
  int64_t row_bytes = 0;      ///< from one row to the next
};

/// Values of a box in memory, row by row.
struct ValueRows {
  DType dtype = DType::F32;   ///< F32, BF16, F16 or F64
  std::byte* data = nullptr;  ///< of the box's first value
  int64_t row_bytes = 0;      ///< from one row to the next
};

/// Decodes a box, and gives how many of the values are infinite or NaN.
/// Law: each value is computed in F32, one rounding to nearest even an operation, in the order that
///      the format says, and then rounded to out.dtype as cast() does, whatever the processor's
///      flags say. What is not a number becomes the quiet NaN without sign or payload. All vector
///      widths, and decode_reference, give the same bits. block_codec_reference.h tells formats.
/// Precondition: box begins and ends as decode_granule says; operands are those of operands_of, in
/// order, each at its operand_box; out does not overlap them.
int64_t decode(const BlockCodec& codec, const ValueBox& box, std::span<const OperandView> operands,
               const ValueRows& out) noexcept;

/// True for formats that values can be brought into: fp8 with scales in F32, F8_E8M0 or U8, and
/// e2m1 with scales in F8_E8M0 or U8, without a global scale.
bool can_encode(const BlockCodec& codec) noexcept;

/// Values in F32, to be encoded.
struct InputRows {
  const std::byte* data = nullptr;  ///< of the box's first value
  int64_t row_bytes = 0;            ///< from one row to the next
};

/// Encodes a box of F32 values into its operands (codes, scales), and gives how many of the values
/// are infinite or NaN. Those have no part in a block's maximum: an infinity becomes the largest
/// code, a NaN the code of NaN, or where codes have none, as in e2m1, the scale NaN.
/// Law: decode(encode(x)) encoded again gives
///        e2m1: the same codes and scales, if x is finite;
///        fp8, scales in F32: the same, if x is of BF16 and is decoded to it. Otherwise the scale
///        may move by its last bit (decoded to F32), or codes of the least values (to F16);
///        fp8, scales that are powers of two: the same values; the same codes and scales from the
///        second time on. A maximum that rounds down to half of the largest code halves the scale.
/// Precondition: can_encode; box as encode_granule says; operands as decode's.
int64_t encode(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
               std::span<const OperandSpan> operands) noexcept;

}  // namespace weightloom
