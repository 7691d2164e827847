// Bytes become elements of every castable dtype; the vectors must cast them as the reference does.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "weightloom/codec/cast.h"
#include "weightloom/codec/cast_testing.h"

namespace {

using namespace weightloom;

void require(bool fact) {
  if (!fact) std::abort();
}

void check(DType from, DType to, const std::byte* in, int64_t count) {
  const auto size = static_cast<size_t>(count * bits(to) / 8);
  std::vector<std::byte> expected(size);
  std::vector<std::byte> made(size);
  const int64_t lost = cast_reference(from, to, in, expected.data(), count);
  require(cast(from, to, in, made.data(), count) == lost);
  require(made == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* in = reinterpret_cast<const std::byte*>(data);
  for (DType from : testing::kCastTypes) {
    const int64_t count = static_cast<int64_t>(size) * 8 / bits(from);
    for (DType to : testing::kCastTypes) check(from, to, in, count);
  }
  return 0;
}
