// Bytes choose a codec, a matrix and a box, and are its operands, or its values. Operands lie in
// memory of exactly their size; the vectors must decode and encode as the reference does.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "weightloom/codec/block_codec_internal.h"
#include "weightloom/codec/block_codec_testing.h"
#include "weightloom/codec/codec_cases_testing.h"

namespace {

using namespace weightloom;
using namespace weightloom::testing;

constexpr size_t kHeadBytes = 8;

void require(bool fact) {
  if (!fact) std::abort();
}

/// Fills memory with the bytes, again and again.
void fill(std::vector<std::byte>& memory, std::span<const uint8_t> from, size_t& at) {
  for (std::byte& byte : memory) {
    byte = from.empty() ? std::byte{0} : static_cast<std::byte>(from[at % from.size()]);
    ++at;
  }
}

void check_decode(const BlockCodec& codec, const ValueBox& box, DType dtype,
                  std::span<const uint8_t> bytes) {
  std::vector<Matrix> operands = operands_for(codec, box);
  size_t at = 0;
  for (Matrix& operand : operands) fill(operand.bytes, bytes, at);
  require(decoded_by(decode, codec, box, operands, dtype, 3) ==
          decoded_by(decode_reference, codec, box, operands, dtype, 3));
}

void check_encode(const BlockCodec& codec, const ValueBox& box, std::span<const uint8_t> bytes) {
  std::vector<std::byte> values(static_cast<size_t>(box.rows() * box.cols()) * sizeof(float));
  size_t at = 0;
  fill(values, bytes, at);
  require(encoded_by(encode, codec, box, values) ==
          encoded_by(encode_reference, codec, box, values));
}

/// Blocks may be of any size, where a codec has blocks.
BlockCodec varied(BlockCodec codec, uint8_t rows, uint8_t cols) {
  const bool is_free = codec.format == BlockFormat::fp8 || codec.format == BlockFormat::int8;
  if (is_free && codec.block_rows != kEntireDim) codec.block_rows = 1 + rows % 7;
  if (is_free && codec.block_cols != kEntireDim) codec.block_cols = 1 + cols % 40;
  return codec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<CodecCase> cases = codec_cases();
  if (size < kHeadBytes) return 0;
  const std::span<const uint8_t> rest(data + kHeadBytes, size - kHeadBytes);
  const BlockCodec codec = varied(cases[data[0] % cases.size()].codec, data[5], data[6]);
  constexpr DType kOutputs[] = {DType::BF16, DType::F32, DType::F16, DType::F64};
  const Granule words = decode_granule(codec);
  const int64_t rows =
      words.rows * (1 + data[1] % 5) + (words.rows == 1 ? 0 : data[2] % words.rows);
  const int64_t cols =
      is_gguf(codec.format) ? words.cols * (1 + data[3] % 3) : 1 + (data[3] | (data[4] % 4) << 8);
  uint64_t seed = data[7];
  check_decode(codec, random_box(words, rows, cols, seed), kOutputs[data[2] % 4], rest);
  if (!can_encode(codec)) return 0;
  check_encode(codec, random_box(encode_granule(codec), rows, cols, seed), rest);
  return 0;
}
