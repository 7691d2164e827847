#include "weightloom/codec/values.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/codec/cast.h"
#include "weightloom/codec/float_format_internal.h"

namespace weightloom {
namespace {

using Table = std::array<double, 256>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The finite value of an eight-bit pattern: sign, exponent, mantissa, with `bias`.
double finite_value(const FloatFormat& format, int bias, int pattern) {
  const int mantissa = pattern & ((1 << format.mantissa_bits) - 1);
  const int biased = (pattern & 0x7f) >> format.mantissa_bits;
  const int hidden = biased == 0 ? 0 : 1 << format.mantissa_bits;
  const int exponent = (biased == 0 ? 1 : biased) - bias - format.mantissa_bits;
  const double magnitude = std::ldexp(hidden + mantissa, exponent);
  return pattern < 0x80 ? magnitude : -magnitude;
}

template <typename Value>
Table table_of(Value value) {
  Table table{};
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = value(i);
  return table;
}

constexpr FloatFormat kE4M3{4, 3};
constexpr FloatFormat kE5M2{5, 2};

/// IEEE's rules, infinities too.
const Table& e5m2() {
  static const Table table = table_of([](int i) {
    if ((i & 0x7f) > 0x7c) return kNaN;
    if ((i & 0x7f) == 0x7c) return i < 0x80 ? HUGE_VAL : -HUGE_VAL;
    return finite_value(kE5M2, 15, i);
  });
  return table;
}

/// No infinities; all ones is NaN.
const Table& e4m3() {
  static const Table table =
      table_of([](int i) { return (i & 0x7f) == 0x7f ? kNaN : finite_value(kE4M3, 7, i); });
  return table;
}

/// FNUZ: finite, one unsigned zero; what would be -0 is NaN; the bias is one more.
const Table& e4m3_fnuz() {
  static const Table table =
      table_of([](int i) { return i == 0x80 ? kNaN : finite_value(kE4M3, 8, i); });
  return table;
}

const Table& e5m2_fnuz() {
  static const Table table =
      table_of([](int i) { return i == 0x80 ? kNaN : finite_value(kE5M2, 16, i); });
  return table;
}

/// Powers of two, without sign, zero or infinity.
const Table& e8m0() {
  static const Table table =
      table_of([](int i) { return i == 0xff ? kNaN : std::ldexp(1.0, i - 127); });
  return table;
}

const Table& boolean() {
  static const Table table = table_of([](int i) { return i == 0 ? 0.0 : 1.0; });
  return table;
}

void look_up(const Table& table, std::span<const std::byte> in, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = table[std::to_integer<size_t>(in[i])];
}

template <typename Integer>
void convert_integers(std::span<const std::byte> in, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Integer value;
    std::memcpy(&value, in.data() + i * sizeof(value), sizeof(value));
    out[i] = static_cast<double>(value);
  }
}

void check_sizes(DType dtype, size_t in_bytes, size_t count) {
  if (!has_values(dtype)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("elements of {} have no value as one number", to_string(dtype)),
                "compare them by their bytes");
  }
  const size_t needed = count * static_cast<size_t>(bits(dtype) / 8);
  if (in_bytes == needed) return;
  throw Error(ErrorCode::usage, fmt::format("{} elements of {} take {} bytes, found {}", count,
                                            to_string(dtype), needed, in_bytes));
}

}  // namespace

bool has_values(DType dtype) noexcept { return bits(dtype) >= 8 && dtype != DType::C64; }

void to_double(DType dtype, std::span<const std::byte> in, std::span<double> out) {
  check_sizes(dtype, in.size(), out.size());
  switch (dtype) {
    case DType::F16:
    case DType::BF16:
    case DType::F32:
    case DType::F64:
      cast(dtype, DType::F64, in.data(), std::as_writable_bytes(out).data(), std::ssize(out));
      return;
    case DType::BOOL:
      return look_up(boolean(), in, out);
    case DType::F8_E5M2:
      return look_up(e5m2(), in, out);
    case DType::F8_E4M3:
      return look_up(e4m3(), in, out);
    case DType::F8_E8M0:
      return look_up(e8m0(), in, out);
    case DType::F8_E4M3FNUZ:
      return look_up(e4m3_fnuz(), in, out);
    case DType::F8_E5M2FNUZ:
      return look_up(e5m2_fnuz(), in, out);
    case DType::U8:
      return convert_integers<uint8_t>(in, out);
    case DType::I8:
      return convert_integers<int8_t>(in, out);
    case DType::U16:
      return convert_integers<uint16_t>(in, out);
    case DType::I16:
      return convert_integers<int16_t>(in, out);
    case DType::U32:
      return convert_integers<uint32_t>(in, out);
    case DType::I32:
      return convert_integers<int32_t>(in, out);
    case DType::U64:
      return convert_integers<uint64_t>(in, out);
    case DType::I64:
      return convert_integers<int64_t>(in, out);
    case DType::F4:
    case DType::F6_E2M3:
    case DType::F6_E3M2:
    case DType::C64:
      return;  // refused above
  }
}

}  // namespace weightloom
