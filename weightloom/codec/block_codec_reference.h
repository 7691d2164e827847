// The reference for block codecs: one value at a time, in the plainest way, without a vector. The
// oracle that decode and encode of block_codec.h must equal, bit for bit.
//
// Arithmetic. All of it in F32, each operation rounded to nearest even; codes, zeros and scales are
// brought into F32 exactly. A scale in F8_E8M0 or U8 is 2^(b − 127), and NaN for b = 255.
//   fp8     code × scale. F8_E4M3 has a NaN (0x7f, 0xff) and no infinity.
//           Source: DeepSeek-V3's weight_dequant; compressed-tensors 0.20.1, _dequantize; OCP MX
//           v1.0 for MXFP8 (blocks of 1 × 32, F8_E8M0).
//   e2m1    codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; 8 to 15 the same, negative (8 is −0).
//           code × s, where s is the scale; scale × global (ModelOpt, weight_scale_2); or
//           scale ÷ global (compressed-tensors 0.20.1, weight_global_scale).
//           Source: OCP MX v1.0, 5.3.3 and 6; the packages named.
//   packed  (q − 2^(bits−1) − zero) × scale; zero points as codes are, but along the rows.
//           Source: compressed-tensors 0.20.1, pack_quantized/helpers.py and _dequantize.
//   gptq    (q − zero) × scale, zero = (stored + zero_bias) mod 2^bits.
//           Source: AutoGPTQ, qlinear_cuda_old.py; GPTQModel, whose second format has bias 0.
//   awq     (q − zero) × scale.   Source: AutoAWQ, utils/packing_utils.py.
//   int8    ((q − zero) × scale) × factor.   Source: bitsandbytes 0.50.2, int8_vectorwise_dequant;
//           compressed-tensors 0.20.1, _dequantize.
//   table4  table[q] × scale.   Source: bitsandbytes 0.50.2, dequantize_4bit.
//   table8  table[q] × scale + offset.   Source: bitsandbytes 0.50.2, dequantize_blockwise.
// gguf_reference_internal.h has those of GGUF.
//
// Encoding. amax is the largest magnitude of a block's finite values.
//   fp8     max = 448, or 57344 for F8_E5M2. scale = (1 ÷ amax) × max, 1 if amax = 0, and the
//   largest
//           finite number if that is too large; stored is 1 ÷ scale. With scales that are powers of
//           two: the least one not below 1 ÷ scale, nor below 2^-126, is stored, and scale is its
//           inverse. (The source takes the logarithm in F32, and misses some that are 2^n and a few
//           bits.) code = value × scale, cut to ±max, rounded to nearest even.
//           Source: Transformers 5.23.0, integrations/finegrained_fp8.py, Fp8Quantize.
//   e2m1    stored is 2^(⌊log2 amax⌋ − 2), kept within the scale's range; the least for amax = 0.
//           code = value ÷ stored, rounded to nearest even, cut to ±6.   Source: OCP MX v1.0, 6.3.
#pragma once

#include <cstdint>
#include <span>

#include "weightloom/base/export.h"
#include "weightloom/codec/block_codec.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// As decode().
int64_t decode_reference(const BlockCodec& codec, const ValueBox& box,
                         std::span<const OperandView> operands, const ValueRows& out) noexcept;

/// As encode().
int64_t encode_reference(const BlockCodec& codec, const ValueBox& box, const InputRows& values,
                         std::span<const OperandSpan> operands) noexcept;

}  // namespace weightloom
