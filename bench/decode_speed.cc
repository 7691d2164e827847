// How fast one thread decodes blocks, beside memcpy: bytes of values written per second of each.
//
//   decode_speed [MEGABYTES] [DTYPE] [FORMAT]    of values; default 256, in BF16, all formats
//
// Prints one line per format and working set: format, bytes of values, gigabytes of values per
// second of decode, of the reference, of a memcpy of as many bytes, and the first over the last.
// The working sets are MEGABYTES, and tiles of 128 rows × 1024 columns, again and again in a cache.
// Best of five rounds, taken in turns; the reference decodes once, and the first rows only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <time.h>

#include "weightloom/codec/block_codec.h"
#include "weightloom/codec/block_codec_reference.h"
#include "weightloom/codec/cast.h"

namespace {

using namespace weightloom;

constexpr int kRounds = 5;
constexpr int64_t kCols = 4096;
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileCols = 1024;
constexpr int64_t kReferenceRows = 32;

struct Format {
  const char* name;
  BlockCodec codec;
};

/// Of this thread's processor time: other programs do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename Work>
double seconds_of(Work work) {
  const double start = now();
  work();
  return now() - start;
}

std::vector<Format> formats() {
  using enum BlockFormat;
  const auto u8 = DType::U8;
  const auto i32 = DType::I32;
  std::vector<Format> all = {
      {"fp8_block", {.block_rows = 128, .block_cols = 128}},
      {"fp8_e5m2_block", {.code_dtype = DType::F8_E5M2, .block_rows = 128, .block_cols = 128}},
      {"fp8_channel", {.scale_dtype = DType::BF16, .block_cols = kEntireDim}},
      {"mxfp8", {.scale_dtype = u8, .block_cols = 32}},
      {"mxfp4", {.format = e2m1, .code_dtype = u8, .scale_dtype = u8, .block_cols = 32}},
      {"nvfp4",
       {.format = e2m1,
        .code_dtype = u8,
        .scale_dtype = DType::F8_E4M3,
        .block_cols = 16,
        .global_scale = GlobalScale::multiplies}},
      {"packed_int4",
       {.format = packed,
        .code_dtype = i32,
        .scale_dtype = DType::BF16,
        .block_cols = 128,
        .bits = 4}},
      {"packed_int8",
       {.format = packed, .code_dtype = i32, .scale_dtype = DType::BF16, .block_cols = 128}},
      {"gptq_int4",
       {.format = gptq,
        .code_dtype = i32,
        .scale_dtype = DType::F16,
        .block_rows = 128,
        .bits = 4,
        .zero_points = true}},
      {"awq_int4",
       {.format = awq,
        .code_dtype = i32,
        .scale_dtype = DType::F16,
        .block_rows = 128,
        .bits = 4,
        .zero_points = true}},
      {"bnb_int8",
       {.format = int8, .code_dtype = DType::I8, .block_cols = kEntireDim, .factor = 0.0078F}},
      {"bnb_nf4", {.format = table4, .code_dtype = u8, .block_cols = 64}},
  };
  constexpr const char* kNames[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0",  "q2_k",
                                    "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const auto format = static_cast<BlockFormat>(static_cast<size_t>(q4_0) + i);
    all.push_back({kNames[i], {.format = format, .code_dtype = u8}});
  }
  return all;
}

/// Operands of a matrix: codes by a simple recurrence, all floats of ordinary size.
class Operands {
 public:
  Operands(const BlockCodec& codec, const ValueBox& box) {
    for (const CodecOperand& operand : operands_of(codec)) {
      const ValueBox part = operand_box(operand, box);
      const int64_t row_bytes = part.cols() * bits(operand.dtype) / 8;
      memory_.emplace_back(static_cast<size_t>(part.rows() * row_bytes));
      fill(operand, memory_.back());
      views_.push_back({memory_.back().data(), row_bytes});
    }
  }

  const std::vector<OperandView>& views() const { return views_; }

 private:
  static void fill(const CodecOperand& operand, std::vector<std::byte>& bytes) {
    unsigned state = 1;
    const auto width = static_cast<size_t>(bits(operand.dtype) / 8);
    const bool is_float = operand.role != OperandRole::codes && has_cast(operand.dtype);
    for (size_t i = 0; i < bytes.size(); i += width) {
      state = state * 1664525U + 1013904223U;
      if (is_float) {
        const float value = static_cast<float>(state >> 8) * 1e-9F + 1e-4F;
        cast(DType::F32, operand.dtype, reinterpret_cast<const std::byte*>(&value), &bytes[i], 1);
      } else if (operand.role == OperandRole::scales) {
        bytes[i] = static_cast<std::byte>(110 + (state >> 28));
      } else {
        // No exponent of ones: all codes of floats are finite, and so are the scales within blocks.
        const unsigned drawn = (state >> 8) & 0xbbbbbbbbU;
        std::memcpy(&bytes[i], &drawn, width);
      }
    }
  }

  std::vector<std::vector<std::byte>> memory_;
  std::vector<OperandView> views_;
};

struct Speed {
  double decode = 1e9;
  double copy = 1e9;
};

Speed best_of(const BlockCodec& codec, const ValueBox& box, DType dtype, int times) {
  const Operands operands(codec, box);
  const int64_t row_bytes = box.cols() * bits(dtype) / 8;
  std::vector<std::byte> out(static_cast<size_t>(box.rows() * row_bytes));
  std::vector<std::byte> copy(out.size(), std::byte{1});
  std::vector<std::byte> copied(out.size());
  Speed best;
  for (int round = 0; round < kRounds; ++round) {
    best.decode = std::min(best.decode, seconds_of([&] {
                             for (int i = 0; i < times; ++i) {
                               decode(codec, box, operands.views(), {dtype, out.data(), row_bytes});
                             }
                           }));
    best.copy = std::min(best.copy, seconds_of([&] {
                           for (int i = 0; i < times; ++i) {
                             std::memcpy(copied.data(), copy.data(), copy.size());
                             asm volatile("" ::"r"(copied.data()) : "memory");
                           }
                         }));
  }
  return best;
}

double reference_seconds(const BlockCodec& codec, const ValueBox& box, DType dtype) {
  const Operands operands(codec, box);
  const int64_t row_bytes = box.cols() * bits(dtype) / 8;
  std::vector<std::byte> out(static_cast<size_t>(box.rows() * row_bytes));
  return seconds_of(
      [&] { decode_reference(codec, box, operands.views(), {dtype, out.data(), row_bytes}); });
}

void measure(const Format& format, DType dtype, int64_t rows, int64_t cols, int times) {
  const ValueBox box{0, rows, 0, cols};
  const int64_t value_bytes = bits(dtype) / 8;
  const double gigabytes = static_cast<double>(rows * cols * value_bytes) * times / 1e9;
  const Speed best = best_of(format.codec, box, dtype, times);
  const ValueBox few{0, std::min(rows, kReferenceRows), 0, cols};
  const double few_gigabytes = static_cast<double>(few.rows() * cols * value_bytes) / 1e9;
  std::printf("%-15s %11lld %7.2f %7.3f %7.2f %6.2f\n", format.name,
              static_cast<long long>(rows * cols * value_bytes), gigabytes / best.decode,
              few_gigabytes / reference_seconds(format.codec, few, dtype), gigabytes / best.copy,
              best.copy / best.decode);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t megabytes = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 256;
  const DType dtype = parse_dtype(argc > 2 ? argv[2] : "BF16").value_or(DType::BF16);
  const int64_t rows = std::max(megabytes * 1'000'000 * 8 / bits(dtype) / kCols, kTileRows);
  const std::string wanted = argc > 3 ? argv[3] : "";
  for (const Format& format : formats()) {
    if (!wanted.empty() && wanted != format.name) continue;
    measure(format, dtype, rows, kCols, 1);
    measure(format, dtype, kTileRows, kTileCols, 200);
  }
  return 0;
}
