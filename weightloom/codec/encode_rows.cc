#include <cstring>

#include "weightloom/codec/encode_rows_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/encode_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using FV = hn::VFromD<F>;
using I = hn::RebindToSigned<F>;
using IV = hn::VFromD<I>;

HWY_INLINE FV load(const std::byte* in) {
  return hn::LoadU(F(), reinterpret_cast<const float*>(in));
}

/// `work` on whole vectors of 4-byte elements from `in`, the last filled up with zeros.
template <typename Work>
HWY_INLINE void for_vectors(const std::byte* in, int64_t count, Work work) {
  const size_t lanes = hn::Lanes(F());
  const auto size = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) work(in + 4 * i, i, lanes);
  if (i == size) return;
  alignas(64) std::byte last[HWY_MAX_BYTES] = {};
  std::memcpy(last, in + 4 * i, 4 * (size - i));
  work(last, i, size - i);
}

uint32_t largest_of(const std::byte* in, int64_t count) {
  const I di;
  IV largest = hn::Zero(di);
  for_vectors(in, count, [&](const std::byte* from, size_t, size_t) HWY_ATTR {
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(load(from))));
  });
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

void scale_all(const std::byte* in, int64_t count, float scale, float most, float* out) {
  const FV factor = hn::Set(F(), scale);
  const FV top = hn::Set(F(), most);
  const auto work = [&](const std::byte* from, size_t i, size_t some) HWY_ATTR {
    const FV scaled = hn::Min(hn::Max(hn::Mul(load(from), factor), hn::Neg(top)), top);
    if (some == hn::Lanes(F())) return hn::StoreU(scaled, F(), out + i);
    alignas(64) float last[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(scaled, F(), last);
    std::memcpy(out + i, last, some * sizeof(float));
  };
  for_vectors(in, count, work);
}

/// From 0 to 2 codes are half apart, from 2 to 4 one, from 4 to 6 two; codes 4 and 6 stand for 2
/// and 4. An integer rounded to nearest even is a code rounded to nearest even.
HWY_INLINE IV codes_of(FV scaled) {
  const I di;
  const FV magnitude = hn::Min(hn::Abs(scaled), hn::Set(F(), 6.0F));
  const IV halves = hn::NearestInt(hn::Add(magnitude, magnitude));
  const IV ones = hn::Add(hn::NearestInt(magnitude), hn::Set(di, 2));
  const IV twos = hn::Add(hn::NearestInt(hn::Mul(magnitude, hn::Set(F(), 0.5F))), hn::Set(di, 4));
  const auto is_below_2 = hn::RebindMask(di, hn::Lt(magnitude, hn::Set(F(), 2.0F)));
  const auto is_below_4 = hn::RebindMask(di, hn::Lt(magnitude, hn::Set(F(), 4.0F)));
  const IV code = hn::IfThenElse(is_below_2, halves, hn::IfThenElse(is_below_4, ones, twos));
  const IV sign = hn::And(hn::ShiftRight<28>(hn::BitCast(di, scaled)), hn::Set(di, 8));
  return hn::Or(code, sign);
}

void codes_of_all(const float* scaled, int64_t count, uint8_t* out) {
  const hn::Rebind<uint8_t, F> d8;
  const auto work = [&](const std::byte* from, size_t i, size_t some) HWY_ATTR {
    const auto codes = hn::DemoteTo(d8, codes_of(load(from)));
    if (some == hn::Lanes(F())) return hn::StoreU(codes, d8, out + i);
    alignas(64) uint8_t last[HWY_MAX_BYTES];
    hn::StoreU(codes, d8, last);
    std::memcpy(out + i, last, some);
  };
  for_vectors(reinterpret_cast<const std::byte*>(scaled), count, work);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(largest_of);
HWY_EXPORT(scale_all);
HWY_EXPORT(codes_of_all);

}  // namespace

uint32_t largest_pattern(const std::byte* in, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(largest_of)(in, count);
}

void scale_row(const std::byte* in, int64_t count, float scale, float most, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(scale_all)(in, count, scale, most, out);
}

void e2m1_codes(const float* scaled, int64_t count, uint8_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(codes_of_all)(scaled, count, out);
}

}  // namespace weightloom
#endif
