// How fast one thread casts, beside memcpy: bytes read and written per second of each.
//
//   cast_speed [MEGABYTES]    of the wider side of each cast; default 256, beyond any cache
//
// Prints one line per cast: from, to, gigabytes per second, the same of a memcpy, and their ratio.
// Of a cast, the bytes of all elements read and of all written count; the memcpy moves as many in
// all, half of them read and half written. Best of five rounds, taken in turns.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "weightloom/codec/cast.h"

namespace {

using namespace weightloom;

constexpr int kRounds = 5;
constexpr DType kDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

template <typename Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Numbers of ordinary size, and among them a few of every size: patterns by a simple recurrence.
std::vector<std::byte> elements_of(DType dtype, size_t count) {
  std::vector<double> values(count);
  unsigned state = 1;
  for (double& value : values) {
    state = state * 1664525U + 1013904223U;
    value = (static_cast<double>(state) / 4294967296.0 - 0.5) * (state % 64 == 0 ? 1e-6 : 0.1);
  }
  std::vector<std::byte> bytes(count * static_cast<size_t>(bits(dtype) / 8));
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  cast(DType::F64, dtype, from, bytes.data(), static_cast<int64_t>(count));
  return bytes;
}

void measure(DType from, DType to, size_t wider_bytes) {
  const auto from_width = static_cast<size_t>(bits(from) / 8);
  const auto to_width = static_cast<size_t>(bits(to) / 8);
  const size_t count = wider_bytes / std::max(from_width, to_width);
  const std::vector<std::byte> in = elements_of(from, count);
  std::vector<std::byte> out(count * to_width);
  const size_t moved = in.size() + out.size();
  const std::vector<std::byte> copy_in(moved / 2, std::byte{1});
  std::vector<std::byte> copy_out(moved / 2);
  double best_cast = 1e9;
  double best_copy = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    best_cast = std::min(best_cast, seconds_of([&] {
                           cast(from, to, in.data(), out.data(), static_cast<int64_t>(count));
                         }));
    best_copy =
        std::min(best_copy,
                 seconds_of([&] { std::memcpy(copy_out.data(), copy_in.data(), copy_in.size()); }));
  }
  const double gigabytes = static_cast<double>(moved) / 1e9;
  std::printf("%s %s %.2f %.2f %.3f\n", std::string(to_string(from)).c_str(),
              std::string(to_string(to)).c_str(), gigabytes / best_cast, gigabytes / best_copy,
              best_copy / best_cast);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  for (DType from : kDTypes) {
    for (DType to : kDTypes) {
      if (from != to) measure(from, to, megabytes * 1'000'000);
    }
  }
  return 0;
}
