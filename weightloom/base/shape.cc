#include "weightloom/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"

namespace weightloom {

std::optional<int64_t> checked_elements(std::span<const int64_t> shape) noexcept {
  int64_t product = 1;
  bool empty = false;
  for (int64_t n : shape) {
    if (n < 0) return std::nullopt;
    if (n == 0) {
      empty = true;
      continue;
    }
    auto next = checked_mul(product, n);
    if (!next) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

int64_t elements(std::span<const int64_t> shape) noexcept {
  int64_t product = 1;
  for (int64_t n : shape) product *= n;
  return product;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::optional<int64_t> checked_bytes(DType dtype, std::span<const int64_t> shape) noexcept {
  auto count = checked_elements(shape);
  if (!count) return std::nullopt;
  auto total_bits = checked_mul(*count, bits(dtype));
  if (!total_bits || *total_bits % 8 != 0) return std::nullopt;
  return *total_bits / 8;
}

std::string to_string(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace weightloom
