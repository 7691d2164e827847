// Casts and decodes stdin to stdout, for python/tests/test_codecs.py.
//
//   codec_probe cast FROM TO                     elements of one dtype to another
//   codec_probe fp8 CODES SCALES BLOCK_ROWS BLOCK_COLS ROWS COLS TO
//   codec_probe e2m1 SCALES BLOCK_COLS ROWS COLS TO
//       codes, then scales, each row by row
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "weightloom/codec/block_codec.h"
#include "weightloom/codec/cast.h"

namespace {

using namespace weightloom;

using Arguments = std::vector<std::string>;

void put(const std::vector<std::byte>& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

int64_t bytes_in(DType dtype) { return bits(dtype) / 8; }

void put_cast(const Arguments& arguments, const std::string& in) {
  const DType from = parse_dtype(arguments.at(1)).value();
  const DType to = parse_dtype(arguments.at(2)).value();
  const int64_t count = std::ssize(in) / bytes_in(from);
  std::vector<std::byte> out(static_cast<size_t>(count * bytes_in(to)));
  const int64_t lost =
      cast(from, to, reinterpret_cast<const std::byte*>(in.data()), out.data(), count);
  put(out);
  std::cerr << lost << '\n';
}

void put_decoded(const BlockCodec& codec, int64_t rows, int64_t cols, DType to,
                 const std::string& in) {
  const ValueBox box{0, rows, 0, cols};
  const std::vector<CodecOperand> operands = operands_of(codec);
  std::vector<OperandView> views;
  size_t at = 0;
  for (const CodecOperand& operand : operands) {
    const ValueBox part = operand_box(operand, box);
    const int64_t row_bytes = part.cols() * bytes_in(operand.dtype);
    views.push_back({reinterpret_cast<const std::byte*>(in.data()) + at, row_bytes});
    at += static_cast<size_t>(part.rows() * row_bytes);
  }
  if (at != in.size()) throw std::runtime_error("operands are of another size");
  const int64_t row_bytes = cols * bytes_in(to);
  std::vector<std::byte> out(static_cast<size_t>(rows * row_bytes));
  const int64_t lost = decode(codec, box, views, {to, out.data(), row_bytes});
  put(out);
  std::cerr << lost << '\n';
}

void run(const Arguments& arguments, const std::string& in) {
  const auto number = [&](size_t i) { return static_cast<int64_t>(std::stoll(arguments.at(i))); };
  const auto dtype = [&](size_t i) { return parse_dtype(arguments.at(i)).value(); };
  if (arguments.at(0) == "cast") return put_cast(arguments, in);
  BlockCodec codec;
  if (arguments[0] == "fp8") {
    codec.code_dtype = dtype(1);
    codec.scale_dtype = dtype(2);
    codec.block_rows = number(3);
    codec.block_cols = number(4);
    return put_decoded(codec, number(5), number(6), dtype(7), in);
  }
  codec.format = BlockFormat::e2m1;
  codec.code_dtype = DType::U8;
  codec.scale_dtype = dtype(1);
  codec.block_cols = number(2);
  put_decoded(codec, number(3), number(4), dtype(5), in);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string in{std::istreambuf_iterator<char>(std::cin), {}};
  run({argv + 1, argv + argc}, in);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
