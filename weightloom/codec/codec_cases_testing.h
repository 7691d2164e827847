// For tests and fuzzing: codecs of every format, as the schemes declare them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "weightloom/codec/block_codec.h"

namespace weightloom::testing {

/// A codec, and a matrix that is not whole in its blocks.
struct CodecCase {
  std::string name;
  BlockCodec codec;
  int64_t rows = 0;
  int64_t cols = 0;
  friend std::ostream& operator<<(std::ostream& out, const CodecCase& c) { return out << c.name; }
};

inline BlockCodec floats8(DType codes, DType scales, int64_t block_rows, int64_t block_cols) {
  return {.code_dtype = codes,
          .scale_dtype = scales,
          .block_rows = block_rows,
          .block_cols = block_cols};
}

inline BlockCodec floats4(DType scales, int64_t block_cols, GlobalScale global) {
  return {.format = BlockFormat::e2m1,
          .code_dtype = DType::U8,
          .scale_dtype = scales,
          .block_cols = block_cols,
          .bits = 4,
          .global_scale = global};
}

inline BlockCodec words(BlockFormat format, DType scales, int bits, int64_t block_rows,
                        int64_t block_cols, bool zero_points) {
  return {.format = format,
          .code_dtype = DType::I32,
          .scale_dtype = scales,
          .block_rows = block_rows,
          .block_cols = block_cols,
          .bits = bits,
          .zero_points = zero_points};
}

inline BlockCodec gptq_like(int bits, int zero_bias, bool group_index) {
  BlockCodec codec = words(BlockFormat::gptq, DType::F16, bits, 16, 1, true);
  codec.zero_bias = zero_bias;
  codec.group_index = group_index;
  codec.groups = group_index ? 4 : 0;
  return codec;
}

inline BlockCodec table(BlockFormat format, int64_t block, float offset) {
  return {.format = format,
          .code_dtype = DType::U8,
          .scale_dtype = DType::F32,
          .block_cols = block,
          .offset = offset};
}

inline BlockCodec whole_bytes(DType scales, int64_t block_rows, bool zero_points, float factor) {
  return {.format = BlockFormat::int8,
          .code_dtype = DType::I8,
          .scale_dtype = scales,
          .block_rows = block_rows,
          .block_cols = kEntireDim,
          .zero_points = zero_points,
          .factor = factor};
}

inline BlockCodec gguf(BlockFormat format) { return {.format = format, .code_dtype = DType::U8}; }

/// Every format, every dtype of scales, blocks in both directions, with and without what is
/// optional.
inline std::vector<CodecCase> codec_cases() {
  using enum BlockFormat;
  const auto none = GlobalScale::none;
  return {
      {"fp8_block", floats8(DType::F8_E4M3, DType::F32, 128, 128), 130, 200},
      {"fp8_block_e8m0", floats8(DType::F8_E4M3, DType::F8_E8M0, 128, 128), 130, 200},
      {"fp8_e5m2_block", floats8(DType::F8_E5M2, DType::F32, 16, 48), 37, 131},
      {"fp8_tensor", floats8(DType::F8_E4M3, DType::F32, kEntireDim, kEntireDim), 7, 77},
      {"fp8_channel_bf16", floats8(DType::F8_E4M3, DType::BF16, 1, kEntireDim), 9, 1031},
      {"fp8_channel_f16", floats8(DType::F8_E5M2, DType::F16, 1, kEntireDim), 9, 65},
      {"fp8_columns", floats8(DType::F8_E4M3, DType::F32, kEntireDim, 1), 5, 530},
      {"mxfp8", floats8(DType::F8_E4M3, DType::U8, 1, 32), 11, 1090},
      {"mxfp4", floats4(DType::U8, 32, none), 5, 1121},
      {"mxfp4_e8m0", floats4(DType::F8_E8M0, 32, none), 3, 96},
      {"nvfp4_multiplies", floats4(DType::F8_E4M3, 16, GlobalScale::multiplies), 6, 1040},
      {"nvfp4_divides", floats4(DType::F8_E4M3, 16, GlobalScale::divides), 6, 49},
      {"packed4_group", words(packed, DType::BF16, 4, 1, 32, false), 5, 1064},
      {"packed4_zeros", words(packed, DType::F16, 4, 1, 32, true), 13, 150},
      {"packed8_zeros", words(packed, DType::F32, 8, 1, 20, true), 7, 130},
      {"packed4_channel", words(packed, DType::F32, 4, 1, kEntireDim, true), 19, 75},
      {"packed4_tensor", words(packed, DType::F32, 4, kEntireDim, kEntireDim, true), 3, 67},
      {"packed2_group", words(packed, DType::F32, 2, 1, 32, true), 18, 100},
      {"gptq4", gptq_like(4, 1, false), 40, 89},
      {"gptq4_second", gptq_like(4, 0, false), 40, 530},
      {"gptq4_act_order", gptq_like(4, 1, true), 64, 41},
      {"gptq8", gptq_like(8, 1, false), 44, 37},
      {"awq", words(awq, DType::F16, 4, 16, 1, true), 37, 1048},
      {"int8_rows", whole_bytes(DType::F32, 1, false, 7.874015718698502e-3F), 5, 1027},
      {"int8_zeros", whole_bytes(DType::BF16, 1, true, 1), 6, 33},
      {"int8_tensor", whole_bytes(DType::F32, kEntireDim, false, 1), 3, 40},
      {"table4_nf4", table(table4, 64, 0), 1, 1341},
      {"table8_nested", table(table8, 256, 0.25F), 1, 1303},
      {"q4_0", gguf(q4_0), 3, 1056},
      {"q4_1", gguf(q4_1), 3, 544},
      {"q5_0", gguf(q5_0), 3, 64},
      {"q5_1", gguf(q5_1), 3, 544},
      {"q8_0", gguf(q8_0), 3, 1056},
      {"q2_k", gguf(q2_k), 2, 768},
      {"q3_k", gguf(q3_k), 2, 768},
      {"q4_k", gguf(q4_k), 2, 768},
      {"q5_k", gguf(q5_k), 2, 768},
      {"q6_k", gguf(q6_k), 2, 768},
      {"iq4_nl", gguf(iq4_nl), 3, 1056},
  };
}

}  // namespace weightloom::testing
