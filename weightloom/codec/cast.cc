#include "weightloom/codec/cast.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "weightloom/codec/float_format_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/cast.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(std::endian::native == std::endian::little, "elements are read as they are stored");

/// A format as a type, with the unsigned integer that holds its patterns.
template <typename WordType, int kExponentBits, int kMantissaBits, bool kHasInfinity = true>
struct Format {
  using Word = WordType;
  static constexpr FloatFormat value{kExponentBits, kMantissaBits, kHasInfinity};
};
using F64 = Format<uint64_t, 11, 52>;
using F32 = Format<uint32_t, 8, 23>;
using F16 = Format<uint16_t, 5, 10>;
using BF16 = Format<uint16_t, 8, 7>;
using E5M2 = Format<uint8_t, 5, 2>;
using E4M3 = Format<uint8_t, 4, 3, false>;

/// Patterns are computed with in lanes of 32 or 64 bits: those of F32 or F64.
template <typename From, typename To>
using WideOf =
    std::conditional_t<sizeof(typename From::Word) == 8 || sizeof(typename To::Word) == 8, F64,
                       F32>;

template <class D>
HWY_INLINE hn::VFromD<D> constant(D d, uint64_t value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

/// Floating-point arithmetic on patterns.
template <class D, class V>
HWY_INLINE V float_sum(D d, V a, V b) {
  const hn::RebindToFloat<D> df;
  return hn::BitCast(d, hn::Add(hn::BitCast(df, a), hn::BitCast(df, b)));
}
template <class D, class V>
HWY_INLINE V float_difference(D d, V a, V b) {
  const hn::RebindToFloat<D> df;
  return hn::BitCast(d, hn::Sub(hn::BitCast(df, a), hn::BitCast(df, b)));
}

/// Magnitudes are patterns without their sign bit; D's lanes are signed, which compares them alike
/// and faster. The magnitude in Wide of a magnitude in From: exact; of a NaN, its payload.
template <typename From, typename Wide, class D, class V>
HWY_INLINE V widened(D d, V magnitude) {
  constexpr FloatFormat kFrom = From::value;
  constexpr FloatFormat kWide = Wide::value;
  constexpr int kShift = kWide.mantissa_bits - kFrom.mantissa_bits;
  constexpr uint64_t kRebias = static_cast<uint64_t>(kWide.bias() - kFrom.bias())
                               << kWide.mantissa_bits;
  const V shifted = hn::ShiftLeft<kShift>(magnitude);
  if constexpr (kRebias == 0) {
    return shifted;
  } else {
    // A subnormal is its mantissa under the least exponent, less the one that this puts before it.
    const V one = constant(d, kRebias + (uint64_t{1} << kWide.mantissa_bits));
    const V subnormal = float_difference(d, hn::Add(shifted, one), one);
    const V normal = hn::Add(shifted, constant(d, kRebias));
    constexpr uint64_t kSpecial = kWide.infinity() + (kFrom.has_infinity ? 0 : kWide.quiet_bit());
    const V special = hn::Add(shifted, constant(d, kSpecial - (kFrom.infinity() << kShift)));
    const auto is_finite = hn::Lt(magnitude, constant(d, kFrom.infinity()));
    const auto is_subnormal = hn::Lt(magnitude, constant(d, uint64_t{1} << kFrom.mantissa_bits));
    return hn::IfThenElse(is_subnormal, subnormal, hn::IfThenElse(is_finite, normal, special));
  }
}

/// The magnitude in To of a magnitude in Wide that came from From, rounded to nearest even; of a
/// NaN, the top of its payload, quiet.
template <typename From, typename Wide, typename To, class D, class V>
HWY_INLINE V narrowed(D d, V magnitude) {
  constexpr FloatFormat kWide = Wide::value;
  constexpr FloatFormat kTo = To::value;
  constexpr int kShift = kWide.mantissa_bits - kTo.mantissa_bits;
  constexpr int kRebias = kWide.bias() - kTo.bias();
  const V kept = hn::ShiftRight<kShift>(magnitude);
  V result = kept;
  if constexpr (From::value.mantissa_bits > kTo.mantissa_bits) {
    const V odd = hn::And(kept, constant(d, 1));
    const V just_below_half = constant(d, (uint64_t{1} << (kShift - 1)) - 1);
    result = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, just_below_half), odd));
  }
  if constexpr (kRebias != 0) {
    result = hn::Sub(result, constant(d, static_cast<uint64_t>(kRebias) << kTo.mantissa_bits));
    result = hn::Min(result, constant(d, kTo.overflow()));
    // Beside a number whose last place is the least step of To, an addition rounds to such steps.
    constexpr uint64_t kStep = static_cast<uint64_t>(kRebias + 1 + kShift) << kWide.mantissa_bits;
    constexpr uint64_t kNormal = static_cast<uint64_t>(kRebias + 1) << kWide.mantissa_bits;
    const V step = constant(d, kStep);
    const V subnormal = hn::Sub(float_sum(d, magnitude, step), step);
    result = hn::IfThenElse(hn::Lt(magnitude, constant(d, kNormal)), subnormal, result);
  }
  const V payload = hn::And(kept, constant(d, (uint64_t{1} << kTo.mantissa_bits) - 1));
  constexpr uint64_t kNaN = kTo.bits() == 8 ? kTo.sign_bit() - 1 : kTo.infinity() | kTo.quiet_bit();
  const V nan = hn::Or(payload, constant(d, kNaN));
  return hn::IfThenElse(hn::Gt(magnitude, constant(d, kWide.infinity())), nan, result);
}

/// The patterns in To of patterns in From. Takes one from the lanes of `minus_lost` where a finite
/// value became infinite.
template <typename From, typename Wide, typename To, class D, class V>
HWY_INLINE V converted(D d, V x, V& minus_lost) {
  constexpr FloatFormat kFrom = From::value;
  constexpr FloatFormat kTo = To::value;
  const V magnitude = hn::And(x, constant(d, kFrom.sign_bit() - 1));
  V sign = hn::Xor(x, magnitude);
  V result = magnitude;
  if constexpr (!std::is_same_v<From, Wide>) result = widened<From, Wide>(d, magnitude);
  if constexpr (!std::is_same_v<Wide, To>) {
    result = narrowed<From, Wide, To>(d, result);
  } else {
    constexpr uint64_t kLast = kFrom.has_infinity ? kFrom.infinity() : kFrom.infinity() - 1;
    const auto is_nan = hn::Gt(magnitude, constant(d, kLast));
    result = hn::Or(result, hn::IfThenElseZero(is_nan, constant(d, kTo.quiet_bit())));
  }
  if constexpr (kTo.bits() < kFrom.bits() || kTo.exponent_bits < kFrom.exponent_bits) {
    const auto is_infinite = hn::VecFromMask(d, hn::Eq(result, constant(d, kTo.infinity())));
    const auto was_finite = hn::VecFromMask(d, hn::Lt(magnitude, constant(d, kFrom.infinity())));
    minus_lost = hn::Add(minus_lost, hn::And(is_infinite, was_finite));
  }
  if constexpr (kTo.bits() > kFrom.bits()) {
    sign = hn::ShiftLeft<kTo.bits() - kFrom.bits()>(sign);
  } else if constexpr (kTo.bits() < kFrom.bits()) {
    const V moved = hn::ShiftRight<kFrom.bits() - kTo.bits()>(sign);
    sign = hn::And(moved, constant(d, kTo.sign_bit()));
  }
  return hn::Or(result, sign);
}

/// Patterns of Word at `in`, each in a lane of D.
template <typename Word, class D>
HWY_INLINE hn::VFromD<D> load_words(D d, const std::byte* in) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<Word, D> dw;
  const auto words = hn::LoadU(dw, reinterpret_cast<const Word*>(in));
  if constexpr (sizeof(Word) == sizeof(hn::TFromD<D>)) {
    return hn::BitCast(d, words);
  } else if constexpr (sizeof(hn::TFromD<D>) == 4 || sizeof(Word) == 4) {
    return hn::BitCast(d, hn::PromoteTo(du, words));
  } else {
    return hn::BitCast(d, hn::PromoteTo(du, hn::PromoteTo(hn::Rebind<uint32_t, D>(), words)));
  }
}

template <typename Word, class D, class V>
HWY_INLINE void store_words([[maybe_unused]] D d, V lanes, std::byte* out) {
  const hn::Rebind<Word, D> dw;
  Word* to = reinterpret_cast<Word*>(out);
  if constexpr (sizeof(Word) == sizeof(hn::TFromD<D>)) {
    hn::StoreU(hn::BitCast(dw, lanes), dw, to);
  } else if constexpr (sizeof(Word) == 4) {
    const hn::RebindToUnsigned<D> du;
    hn::StoreU(hn::TruncateTo(dw, hn::BitCast(du, lanes)), dw, to);
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    hn::StoreU(hn::DemoteTo(dw, lanes), dw, to);
  } else {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<int32_t, D> d32;
    const auto halves = hn::TruncateTo(hn::Rebind<uint32_t, D>(), hn::BitCast(du, lanes));
    hn::StoreU(hn::DemoteTo(dw, hn::BitCast(d32, halves)), dw, to);
  }
}

template <typename From, typename To>
int64_t cast_span(const std::byte* in, std::byte* out, int64_t count) {
  using Wide = WideOf<From, To>;
  using Lane = std::make_signed_t<typename Wide::Word>;
  constexpr size_t kFromBytes = sizeof(typename From::Word);
  constexpr size_t kToBytes = sizeof(typename To::Word);
  const hn::ScalableTag<Lane> d;
  const size_t lanes = hn::Lanes(d);
  auto minus_lost = hn::Zero(d);
  const auto cast_vector = [&](const std::byte* from, std::byte* to) HWY_ATTR {
    const auto patterns = load_words<typename From::Word>(d, from);
    store_words<typename To::Word>(d, converted<From, Wide, To>(d, patterns, minus_lost), to);
  };
  const auto size = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) cast_vector(in + i * kFromBytes, out + i * kToBytes);
  if (i < size) {
    alignas(64) std::byte last_in[HWY_MAX_BYTES] = {};
    alignas(64) std::byte last_out[HWY_MAX_BYTES];
    std::memcpy(last_in, in + i * kFromBytes, (size - i) * kFromBytes);
    cast_vector(last_in, last_out);
    std::memcpy(out + i * kToBytes, last_out, (size - i) * kToBytes);
  }
  return -static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, minus_lost)));
}

template <typename From>
int64_t cast_from(DType to, const std::byte* in, std::byte* out, int64_t count) {
  if (to == DType::F64) return cast_span<From, F64>(in, out, count);
  if (to == DType::F32) return cast_span<From, F32>(in, out, count);
  if (to == DType::F16) return cast_span<From, F16>(in, out, count);
  if (to == DType::F8_E5M2) return cast_span<From, E5M2>(in, out, count);
  if (to == DType::F8_E4M3) return cast_span<From, E4M3>(in, out, count);
  return cast_span<From, BF16>(in, out, count);
}

int64_t cast_any(DType from, DType to, const std::byte* in, std::byte* out, int64_t count) {
  if (from == DType::F64) return cast_from<F64>(to, in, out, count);
  if (from == DType::F32) return cast_from<F32>(to, in, out, count);
  if (from == DType::F16) return cast_from<F16>(to, in, out, count);
  if (from == DType::F8_E5M2) return cast_from<E5M2>(to, in, out, count);
  if (from == DType::F8_E4M3) return cast_from<E4M3>(to, in, out, count);
  return cast_from<BF16>(to, in, out, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(cast_any);

// So many elements at a time that a lane of 32 bits can count them.
constexpr int64_t kMostElements = int64_t{1} << 30;

}  // namespace

bool is_castable(DType dtype) noexcept {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

bool has_cast(DType dtype) noexcept {
  return is_castable(dtype) || dtype == DType::F8_E5M2 || dtype == DType::F8_E4M3;
}

int64_t cast(DType from, DType to, const std::byte* in, std::byte* out, int64_t count) noexcept {
  const int64_t from_bytes = bits(from) / 8;
  const int64_t to_bytes = bits(to) / 8;
  if (from == to) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count * to_bytes));
    return 0;
  }
  int64_t lost = 0;
  for (int64_t done = 0; done < count; done += kMostElements) {
    const int64_t part = count - done < kMostElements ? count - done : kMostElements;
    lost += HWY_DYNAMIC_DISPATCH(cast_any)(from, to, in + done * from_bytes, out + done * to_bytes,
                                           part);
  }
  return lost;
}

}  // namespace weightloom
#endif
