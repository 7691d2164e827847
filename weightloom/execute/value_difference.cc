#include "weightloom/execute/value_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/codec/values.h"

namespace weightloom {
namespace {

// Elements that are decoded at once: 64 KiB of F64 on each side.
constexpr size_t kDecodedAtOnce = 8192;

size_t width_of(DType dtype) { return static_cast<size_t>(bits(dtype)) / 8; }

template <class Integer>
double distance_of(const std::byte* a, const std::byte* b) {
  Integer x = 0;
  Integer y = 0;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const auto [low, high] = std::minmax(x, y);
  return static_cast<double>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
}

/// Elements of one dtype on both sides, or of two.
class Comparer {
 public:
  Comparer(DType dtype_a, DType dtype_b) : dtype_a_(dtype_a), dtype_b_(dtype_b) {}

  ValueDifference compare(std::span<const std::byte> a, std::span<const std::byte> b) {
    const size_t count = a.size() / width_of(dtype_a_);
    result_.elements = static_cast<int64_t>(count);
    if (dtype_a_ == dtype_b_ && std::ranges::equal(a, b)) return result_;
    for (size_t first = 0; first < count; first += kDecodedAtOnce) {
      const size_t some = std::min(kDecodedAtOnce, count - first);
      compare_some(part(a, dtype_a_, first, some), part(b, dtype_b_, first, some), first, some);
    }
    return result_;
  }

 private:
  static std::span<const std::byte> part(std::span<const std::byte> all, DType dtype, size_t first,
                                         size_t count) {
    return all.subspan(first * width_of(dtype), count * width_of(dtype));
  }

  void compare_some(std::span<const std::byte> a, std::span<const std::byte> b, size_t first,
                    size_t count) {
    if (dtype_a_ == dtype_b_ && std::ranges::equal(a, b)) return;
    values_a_.resize(count);
    values_b_.resize(count);
    to_double(dtype_a_, a, values_a_);
    to_double(dtype_b_, b, values_b_);
    const size_t width = width_of(dtype_a_);
    for (size_t i = 0; i < count; ++i) {
      const auto index = static_cast<int64_t>(first + i);
      if (dtype_a_ != dtype_b_) {
        const size_t width_b = width_of(dtype_b_);
        if (values_a_[i] != values_b_[i] || !is_exactly_equal(&a[i * width], &b[i * width_b], i)) {
          note_values(index, values_a_[i], values_b_[i]);
        }
      } else if (std::memcmp(&a[i * width], &b[i * width], width) != 0) {
        note_bits(index, &a[i * width], &b[i * width], i);
      }
    }
  }

  /// Of values that F64 makes equal: integers of 64 bits may be between two of its values.
  bool is_exactly_equal(const std::byte* a, const std::byte* b, size_t i) const {
    return exact(dtype_a_, a, values_a_[i]) == exact(dtype_b_, b, values_b_[i]);
  }

  static long double exact(DType dtype, const std::byte* element, double value) {
    static_assert(std::numeric_limits<long double>::digits >= 64);
    if (dtype == DType::I64) return static_cast<long double>(read_as<int64_t>(element));
    if (dtype == DType::U64) return static_cast<long double>(read_as<uint64_t>(element));
    return static_cast<long double>(value);
  }

  template <typename Integer>
  static Integer read_as(const std::byte* element) {
    Integer value;
    std::memcpy(&value, element, sizeof value);
    return value;
  }

  /// Elements of one dtype whose bits differ.
  void note_bits(int64_t index, const std::byte* a, const std::byte* b, size_t i) {
    if (dtype_a_ == DType::I64) return note_distance(index, distance_of<int64_t>(a, b));
    if (dtype_a_ == DType::U64) return note_distance(index, distance_of<uint64_t>(a, b));
    const bool both_nan = std::isnan(values_a_[i]) && std::isnan(values_b_[i]);
    if (both_nan || values_a_[i] == values_b_[i]) {
      ++result_.other_bits;
    } else {
      note_values(index, values_a_[i], values_b_[i]);
    }
  }

  /// Values that are not equal; two NaNs are none.
  void note_values(int64_t index, double a, double b) {
    const bool nan_a = std::isnan(a);
    const bool nan_b = std::isnan(b);
    if (nan_a && nan_b) return;
    if (!nan_a && !nan_b) return note_distance(index, std::abs(a - b));
    note_differing(index);
    ++(nan_a ? result_.nan_only_in_a : result_.nan_only_in_b);
  }

  void note_distance(int64_t index, double distance) {
    note_differing(index);
    if (result_.max_abs_index >= 0 && distance <= result_.max_abs) return;
    result_.max_abs = distance;
    result_.max_abs_index = index;
  }

  void note_differing(int64_t index) {
    if (result_.differing++ == 0) result_.first_index = index;
  }

  DType dtype_a_;
  DType dtype_b_;
  ValueDifference result_;
  std::vector<double> values_a_;
  std::vector<double> values_b_;
};

int64_t moved(int64_t index, int64_t offset) { return index < 0 ? index : index + offset; }

}  // namespace

ValueDifference compare_values(DType dtype_a, std::span<const std::byte> a, DType dtype_b,
                               std::span<const std::byte> b) {
  for (const DType dtype : {dtype_a, dtype_b}) {
    if (has_values(dtype)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("elements of {} cannot be compared as numbers", to_string(dtype)));
  }
  return Comparer(dtype_a, dtype_b).compare(a, b);
}

ValueDifference joined(const ValueDifference& before, const ValueDifference& after,
                       int64_t offset) {
  ValueDifference both = before;
  both.elements += after.elements;
  both.differing += after.differing;
  both.other_bits += after.other_bits;
  both.nan_only_in_a += after.nan_only_in_a;
  both.nan_only_in_b += after.nan_only_in_b;
  if (before.first_index < 0) both.first_index = moved(after.first_index, offset);
  const bool after_is_larger =
      after.max_abs_index >= 0 && (before.max_abs_index < 0 || after.max_abs > before.max_abs);
  if (after_is_larger) {
    both.max_abs = after.max_abs;
    both.max_abs_index = moved(after.max_abs_index, offset);
  }
  return both;
}

}  // namespace weightloom
