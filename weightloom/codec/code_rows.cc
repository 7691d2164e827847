#include <cstring>

#include "weightloom/codec/code_rows_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/code_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// No longer than a run.
using F = hn::CappedTag<float, 16>;
static_assert(kRun == 16);
using FV = hn::VFromD<F>;
using I = hn::RebindToSigned<F>;
using IV = hn::VFromD<I>;

/// Codes in lanes of 32 bits.
HWY_INLINE IV unsigned_lanes(const uint8_t* codes) {
  const hn::Rebind<uint8_t, F> d8;
  return hn::PromoteTo(I(), hn::LoadU(d8, codes));
}
HWY_INLINE IV signed_lanes(const uint8_t* codes) {
  const hn::Rebind<int8_t, F> d8;
  return hn::PromoteTo(I(), hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
}

/// Floats of 8 bits, their magnitude moved to where F32 has it. A product with a power of two then
/// makes up for the other bias, exactly, subnormals too.
template <int kMantissaBits, int kBias>
HWY_INLINE FV small_float(IV codes) {
  const I di;
  const IV magnitude = hn::And(codes, hn::Set(di, 0x7f));
  const IV moved = hn::ShiftLeft<23 - kMantissaBits>(magnitude);
  const FV rebias = hn::BitCast(F(), hn::Set(di, (127 + 127 - kBias) << 23));
  const FV value = hn::Mul(hn::BitCast(F(), moved), rebias);
  const IV sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(di, 0x80)));
  return hn::BitCast(F(), hn::Or(hn::BitCast(di, value), sign));
}

#if HWY_TARGET <= HWY_AVX2
// These processors widen F16 exactly, and faster than they multiply subnormals.
template <int kShift, int kKept>
HWY_INLINE FV as_half(const uint8_t* codes) {
  const hn::Rebind<int8_t, F> d8;
  const hn::Rebind<int16_t, F> d16;
  const auto wide = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
  const auto moved =
      hn::And(hn::ShiftLeft<kShift>(wide), hn::Set(d16, static_cast<int16_t>(kKept)));
  return hn::PromoteTo(F(), hn::BitCast(hn::Rebind<hwy::float16_t, F>(), moved));
}
#endif

struct E4M3 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
#if HWY_TARGET <= HWY_AVX2
    // F16 has a bias of 15, 8 more: what it sees is 2^8 too small, and the NaN is 480 · 2^-8.
    const FV value = hn::Mul(as_half<7, 0xbf80>(codes), hn::Set(F(), 256.0F));
#else
    const FV value = small_float<3, 7>(unsigned_lanes(codes));
#endif
    const auto is_nan = hn::Gt(hn::Abs(value), hn::Set(F(), 448.0F));
    return hn::IfThenElse(is_nan, hn::NaN(F()), value);
  }
};

struct E5M2 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
#if HWY_TARGET <= HWY_AVX2
    return as_half<8, -1>(codes);
#else
    const I di;
    const IV lanes = unsigned_lanes(codes);
    const FV value = small_float<2, 15>(lanes);
    const auto is_special = hn::Gt(hn::And(lanes, hn::Set(di, 0x7f)), hn::Set(di, 0x7b));
    const IV exponent = hn::Set(di, 0x7f800000);
    return hn::BitCast(F(), hn::IfThenElse(is_special, hn::Or(hn::BitCast(di, value), exponent),
                                           hn::BitCast(di, value)));
#endif
  }
};

struct Signed8 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
    return hn::ConvertTo(F(), signed_lanes(codes));
  }
};

struct Unsigned8 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
    return hn::ConvertTo(F(), unsigned_lanes(codes));
  }
};

/// A word each.
struct Fields {
  static constexpr size_t kCodeBytes = 4;
  HWY_INLINE static FV number(const CodeRow& row, const uint8_t* codes) {
    const I di;
    const IV words = hn::LoadU(di, reinterpret_cast<const int32_t*>(codes));
    const IV moved = hn::ShiftRightSame(words, row.shift);
    return hn::ConvertTo(F(), hn::And(moved, hn::Set(di, row.mask)));
  }
};

struct Table256 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow& row, const uint8_t* codes) {
    return hn::GatherIndex(F(), row.table, unsigned_lanes(codes));
  }
};

struct Table16 {
  static constexpr size_t kCodeBytes = 1;
  HWY_INLINE static FV number(const CodeRow& row, const uint8_t* codes) {
    const IV index = unsigned_lanes(codes);
    constexpr size_t kLanes = hn::MaxLanes(F());
    if constexpr (kLanes == 16) {
      return hn::TableLookupLanes(hn::LoadU(F(), row.table), hn::IndicesFromVec(F(), index));
    } else if constexpr (kLanes == 8) {
      const I di;
      const auto low = hn::IndicesFromVec(F(), hn::And(index, hn::Set(di, 7)));
      const FV first = hn::TableLookupLanes(hn::LoadU(F(), row.table), low);
      const FV second = hn::TableLookupLanes(hn::LoadU(F(), row.table + 8), low);
      const auto is_first = hn::Lt(index, hn::Set(di, 8));
      return hn::IfThenElse(hn::RebindMask(F(), is_first), first, second);
    } else {
      return hn::GatherIndex(F(), row.table, index);
    }
  }
};

/// What stands beside codes from the i-th on: as many floats, or that of their run.
template <bool kRuns>
HWY_INLINE FV beside(const CodeRow& row, const float* floats, size_t i) {
  if constexpr (kRuns) {
    return hn::Set(F(), floats[i >> row.run_log2]);
  } else {
    return hn::LoadU(F(), floats + i);
  }
}

template <typename Number, RowSteps kSteps, bool kRuns>
HWY_INLINE FV value_of(const CodeRow& row, const uint8_t* codes, size_t i) {
  FV value = Number::number(row, codes);
  if constexpr (kSteps == RowSteps::zero_scale || kSteps == RowSteps::zero_scale_factor) {
    value = hn::Sub(value, beside<kRuns>(row, row.zeros, i));
  }
  value = hn::Mul(value, beside<kRuns>(row, row.scales, i));
  if constexpr (kSteps == RowSteps::zero_scale_factor) {
    value = hn::Mul(value, hn::Set(F(), row.factor));
  }
  if constexpr (kSteps == RowSteps::scale_offset) {
    value = hn::Add(value, beside<kRuns>(row, row.offsets, i));
  }
  return value;
}

struct ToF32 {
  static constexpr size_t kBytes = 4;
  HWY_INLINE static void store(FV value, std::byte* out) {
    hn::StoreU(value, F(), reinterpret_cast<float*>(out));
  }
  HWY_INLINE static void store_two(FV first, FV second, std::byte* out) {
    store(first, out);
    store(second, out + hn::Lanes(F()) * kBytes);
  }
};

struct ToBF16 {
  static constexpr size_t kBytes = 2;
  using U = hn::RebindToUnsigned<F>;

  /// The BF16 is the upper half.
  HWY_INLINE static hn::VFromD<U> rounded(FV value) {
    const U du;
    const auto pattern = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(pattern), hn::Set(du, 1));
    return hn::Add(hn::Add(pattern, hn::Set(du, 0x7fff)), odd);
  }
  HWY_INLINE static void store(FV value, std::byte* out) {
    const hn::Rebind<uint16_t, F> d16;
    const auto upper = hn::ShiftRight<16>(rounded(value));
    hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<uint16_t*>(out));
  }
  HWY_INLINE static void store_two(FV first, FV second, std::byte* out) {
#if HWY_TARGET == HWY_SCALAR
    store(first, out);
    store(second, out + kBytes);
#else
    const hn::Repartition<uint16_t, F> d16;
    const auto low = hn::BitCast(d16, rounded(first));
    const auto high = hn::BitCast(d16, rounded(second));
    hn::StoreU(hn::ConcatOdd(d16, high, low), d16, reinterpret_cast<uint16_t*>(out));
#endif
  }
};

template <typename Number, RowSteps kSteps, typename To, bool kRuns>
uint32_t write_values(const CodeRow& row, std::byte* out) {
  constexpr size_t kCodeBytes = Number::kCodeBytes;
  const auto* codes = reinterpret_cast<const uint8_t*>(row.codes);
  const size_t lanes = hn::Lanes(F());
  const auto count = static_cast<size_t>(row.count);
  const I di;
  IV largest = hn::Zero(di);
  const auto value_at = [&](const uint8_t* from, size_t i) HWY_ATTR {
    const FV value = value_of<Number, kSteps, kRuns>(row, from, i);
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(value)));
    return value;
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const FV first = value_at(codes + i * kCodeBytes, i);
    const FV second = value_at(codes + (i + lanes) * kCodeBytes, i + lanes);
    To::store_two(first, second, out + i * To::kBytes);
  }
  for (; i < count; i += lanes) {
    // Codes past the last are code 0, beside scales that the row's owner keeps.
    const size_t some = HWY_MIN(lanes, count - i);
    alignas(64) uint8_t last_codes[HWY_MAX_BYTES] = {};
    alignas(64) std::byte last_out[HWY_MAX_BYTES];
    std::memcpy(last_codes, codes + i * kCodeBytes, some * kCodeBytes);
    To::store(value_at(last_codes, i), last_out);
    std::memcpy(out + i * To::kBytes, last_out, some * To::kBytes);
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

template <typename Number, RowSteps kSteps, typename To>
uint32_t write_row(const CodeRow& row, std::byte* out) {
  return row.has_runs ? write_values<Number, kSteps, To, true>(row, out)
                      : write_values<Number, kSteps, To, false>(row, out);
}

template <typename To>
uint32_t write_any(const CodeRow& row, std::byte* out) {
  switch (row.kind) {
    case CodeKind::e4m3:
      return write_row<E4M3, RowSteps::scale, To>(row, out);
    case CodeKind::e5m2:
      return write_row<E5M2, RowSteps::scale, To>(row, out);
    case CodeKind::fields:
      return write_row<Fields, RowSteps::zero_scale, To>(row, out);
    case CodeKind::table16:
      return write_row<Table16, RowSteps::scale, To>(row, out);
    case CodeKind::table256:
      return write_row<Table256, RowSteps::scale_offset, To>(row, out);
    case CodeKind::signed8:
      return row.steps == RowSteps::scale
                 ? write_row<Signed8, RowSteps::scale, To>(row, out)
                 : write_row<Signed8, RowSteps::zero_scale_factor, To>(row, out);
    case CodeKind::unsigned8:
      return row.steps == RowSteps::zero_scale
                 ? write_row<Unsigned8, RowSteps::zero_scale, To>(row, out)
                 : write_row<Unsigned8, RowSteps::scale_offset, To>(row, out);
  }
  return 0;
}

uint32_t write_f32(const CodeRow& row, std::byte* out) { return write_any<ToF32>(row, out); }
uint32_t write_bf16(const CodeRow& row, std::byte* out) { return write_any<ToBF16>(row, out); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(write_f32);
HWY_EXPORT(write_bf16);

}  // namespace

uint32_t row_to_f32(const CodeRow& row, std::byte* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(write_f32)(row, out);
}

uint32_t row_to_bf16(const CodeRow& row, std::byte* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(write_bf16)(row, out);
}

}  // namespace weightloom
#endif
