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

using F = hn::ScalableTag<float>;
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
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
    return hn::ConvertTo(F(), signed_lanes(codes));
  }
};

struct Unsigned8 {
  HWY_INLINE static FV number(const CodeRow&, const uint8_t* codes) {
    return hn::ConvertTo(F(), unsigned_lanes(codes));
  }
};

struct Table256 {
  HWY_INLINE static FV number(const CodeRow& row, const uint8_t* codes) {
    return hn::GatherIndex(F(), row.table, unsigned_lanes(codes));
  }
};

struct Table16 {
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

template <typename Number, RowSteps kSteps>
HWY_INLINE FV value_of(const CodeRow& row, const uint8_t* codes, size_t i) {
  FV value = Number::number(row, codes);
  if constexpr (kSteps == RowSteps::zero_scale || kSteps == RowSteps::zero_scale_factor) {
    value = hn::Sub(value, hn::LoadU(F(), row.zeros + i));
  }
  value = hn::Mul(value, hn::LoadU(F(), row.scales + i));
  if constexpr (kSteps == RowSteps::zero_scale_factor) {
    value = hn::Mul(value, hn::Set(F(), row.factor));
  }
  if constexpr (kSteps == RowSteps::scale_offset) {
    value = hn::Add(value, hn::LoadU(F(), row.offsets + i));
  }
  return value;
}

struct ToF32 {
  static constexpr size_t kBytes = 4;
  HWY_INLINE static void store(FV value, std::byte* out) {
    hn::StoreU(value, F(), reinterpret_cast<float*>(out));
  }
};

struct ToBF16 {
  static constexpr size_t kBytes = 2;
  HWY_INLINE static void store(FV value, std::byte* out) {
    const hn::RebindToUnsigned<F> du;
    const hn::Rebind<uint16_t, F> d16;
    const auto pattern = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(pattern), hn::Set(du, 1));
    const auto rounded = hn::Add(hn::Add(pattern, hn::Set(du, 0x7fff)), odd);
    const auto upper = hn::ShiftRight<16>(rounded);
    hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<uint16_t*>(out));
  }
};

template <typename Number, RowSteps kSteps, typename To>
uint32_t write_row(const CodeRow& row, std::byte* out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(row.codes);
  const size_t lanes = hn::Lanes(F());
  const auto count = static_cast<size_t>(row.count);
  const I di;
  IV largest = hn::Zero(di);
  const auto write = [&](const uint8_t* from, size_t i, std::byte* to) HWY_ATTR {
    const FV value = value_of<Number, kSteps>(row, from, i);
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(value)));
    To::store(value, to);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) write(codes + i, i, out + i * To::kBytes);
  if (i < count) {
    // Codes past the last are code 0, beside scales that the row's owner keeps.
    alignas(64) uint8_t last_codes[HWY_MAX_BYTES] = {};
    alignas(64) std::byte last_out[HWY_MAX_BYTES];
    std::memcpy(last_codes, codes + i, count - i);
    write(last_codes, i, last_out);
    std::memcpy(out + i * To::kBytes, last_out, (count - i) * To::kBytes);
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

template <typename To>
uint32_t write_any(const CodeRow& row, std::byte* out) {
  switch (row.kind) {
    case CodeKind::e4m3:
      return write_row<E4M3, RowSteps::scale, To>(row, out);
    case CodeKind::e5m2:
      return write_row<E5M2, RowSteps::scale, To>(row, out);
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
