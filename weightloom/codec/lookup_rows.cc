#include <algorithm>
#include <cmath>
#include <cstring>

#include "weightloom/codec/code_rows_internal.h"
#include "weightloom/codec/lookup_rows_internal.h"

// Highway compiles the rest of this file once per instruction set and chooses at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weightloom/codec/lookup_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weightloom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F>;
using I32 = hn::RebindToSigned<F>;

/// Rounds numbers to BF16, each in a lane of 32 bits.
HWY_INLINE hn::VFromD<U32> rounded(hn::VFromD<F> value) {
  const U32 du;
  const auto pattern = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(pattern), hn::Set(du, 1));
  return hn::ShiftRight<16>(hn::Add(hn::Add(pattern, hn::Set(du, 0x7fff)), odd));
}

/// Writes rounded entries of a table from the i-th on, byte by byte.
HWY_INLINE void write_entries(hn::VFromD<U32> entries, size_t i, LookupTable& table) {
  const I32 di;
  const hn::Rebind<uint8_t, F> d8;
  const auto lower = hn::And(entries, hn::Set(U32(), 0xff));
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, lower)), d8, table.lower + i);
  const auto upper = hn::ShiftRight<8>(entries);
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, upper)), d8, table.upper + i);
}

#if HWY_TARGET <= HWY_AVX3

/// What 16 codes stand for, in a register.
class Entries {
 public:
  HWY_INLINE void set(size_t, hn::VFromD<U32> entries) { entries_ = entries; }
  HWY_INLINE void look_up(const uint8_t* codes, uint16_t* out) const {
    const hn::Rebind<uint8_t, F> d8;
    const hn::Rebind<uint16_t, F> d16;
    const auto index = hn::IndicesFromVec(U32(), hn::PromoteTo(I32(), hn::LoadU(d8, codes)));
    hn::StoreU(hn::TruncateTo(d16, hn::TableLookupLanes(entries_, index)), d16, out);
  }

 private:
  hn::VFromD<U32> entries_;
};

#elif HWY_TARGET == HWY_SCALAR

/// What 16 codes stand for.
class Entries {
 public:
  void set(size_t i, hn::VFromD<U32> entries) {
    entries_[i] = static_cast<uint16_t>(hn::GetLane(entries));
  }
  void look_up(const uint8_t* codes, uint16_t* out) const {
    for (int64_t i = 0; i < kLookupStep; ++i) out[i] = entries_[codes[i]];
  }

 private:
  uint16_t entries_[16];
};

#else

/// What 16 codes stand for, looked up byte by byte.
class Entries {
 public:
  HWY_INLINE void set(size_t i, hn::VFromD<U32> entries) { write_entries(entries, i, table_); }
  HWY_INLINE void look_up(const uint8_t* codes, uint16_t* out) const {
    const hn::FixedTag<uint8_t, 16> d8;
    auto* to = reinterpret_cast<uint8_t*>(out);
    const auto index = hn::LoadU(d8, codes);
    const auto low = hn::TableLookupBytes(hn::Load(d8, table_.lower), index);
    const auto high = hn::TableLookupBytes(hn::Load(d8, table_.upper), index);
    hn::StoreU(hn::InterleaveLower(d8, low, high), d8, to);
    hn::StoreU(hn::InterleaveUpper(d8, low, high), d8, to + 16);
  }

 private:
  LookupTable table_;
};

#endif

/// Entries of a group; gives the largest of their patterns before rounding, less the sign.
HWY_INLINE hn::VFromD<I32> set_entries(const LookupRow& row, int64_t group, Entries& entries) {
  const I32 di;
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < 16; i += hn::Lanes(F())) {
    auto value = hn::LoadU(F(), row.numbers + i);
    if (row.zeros != nullptr) value = hn::Sub(value, hn::Set(F(), row.zeros[group]));
    value = hn::Mul(value, hn::Set(F(), row.scales[group]));
    if (row.offsets != nullptr) value = hn::Add(value, hn::Set(F(), row.offsets[group]));
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(value)));
    entries.set(i, rounded(value));
  }
  return largest;
}

bool look_up_nibbles(const LookupRow& row, std::byte* out) {
  const I32 di;
  auto largest = hn::Zero(di);
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (int64_t begin = 0, group = 0; begin < row.count; begin += row.group, ++group) {
    Entries entries;
    largest = hn::Max(largest, set_entries(row, group, entries));
    const int64_t end = std::min(begin + row.group, row.count);
    int64_t i = begin;
    for (; i + kLookupStep <= end; i += kLookupStep) entries.look_up(row.codes + i, to + i);
    if (i == end) continue;
    uint16_t last[kLookupStep];
    entries.look_up(row.codes + i, last);
    std::memcpy(out + 2 * i, last, static_cast<size_t>(2 * (end - i)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))) < kBf16Overflow;
}

/// The table of 16 numbers beside a scale.
void make_table(const float* numbers, float scale, LookupTable& table) {
  for (size_t i = 0; i < 16; i += hn::Lanes(F())) {
    const auto value = hn::Mul(hn::LoadU(F(), numbers + i), hn::Set(F(), scale));
    write_entries(rounded(value), i, table);
  }
}

#if HWY_TARGET == HWY_SCALAR

bool look_up_floats(const std::byte*, int64_t, int64_t, const LookupTable*, std::byte*) {
  return false;
}

#else

using D8 = hn::ScalableTag<uint8_t>;
using V8 = hn::VFromD<D8>;
using D16 = hn::Repartition<int16_t, D8>;

/// Eight codes at a time, in such an order that the lower halves of blocks of 16 are the first half
/// of a vector.
HWY_INLINE V8 halves_apart(V8 codes) {
  const hn::Repartition<uint32_t, D8> d32;
  constexpr size_t kLanes = hn::MaxLanes(d32);
  if constexpr (kLanes <= 4) {
    return codes;
  } else {
    alignas(64) int32_t places[kLanes];
    for (size_t i = 0; i < kLanes; ++i) {
      const size_t pair = i / 2;
      const size_t from = pair % 2 == 0 ? pair / 2 : kLanes / 4 + pair / 2;
      places[i] = static_cast<int32_t>(2 * from + i % 2);
    }
    const auto indexes = hn::SetTableIndices(d32, places);
    return hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(d32, codes), indexes));
  }
}

/// A mantissa's entry, with the code's exponent and sign put over it.
HWY_INLINE hn::VFromD<D16> with_exponent(V8 entries, V8 codes_above) {
  const D16 d16;
  const auto moved = hn::ShiftRight<4>(hn::BitCast(d16, codes_above));
  const auto exponent = hn::And(moved, hn::Set(d16, static_cast<int16_t>(0x8780)));
  return hn::Add(hn::BitCast(d16, entries), exponent);
}

bool look_up_floats(const std::byte* codes, int64_t count, int64_t group, const LookupTable* tables,
                    std::byte* out) {
  const D8 d8;
  const D16 d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d8));
  auto nans = hn::Zero(d8);
  const auto look_up = [&](V8 lower, V8 upper, const uint8_t* from, int16_t* to) HWY_ATTR {
    const V8 code = hn::LoadU(d8, from);
    const V8 magnitude = hn::And(code, hn::Set(d8, 0x7f));
    nans = hn::Max(nans, magnitude);
    const auto is_subnormal = hn::Lt(hn::BitCast(hn::RebindToSigned<D8>(), magnitude),
                                     hn::Set(hn::RebindToSigned<D8>(), 8));
    const V8 eight =
        hn::BitCast(d8, hn::And(hn::VecFromMask(hn::RebindToSigned<D8>(), is_subnormal),
                                hn::Set(hn::RebindToSigned<D8>(), 8)));
    const V8 ordered = halves_apart(code);
    const V8 index = hn::Or(hn::And(ordered, hn::Set(d8, 7)), halves_apart(eight));
    const V8 low = hn::TableLookupBytes(lower, index);
    const V8 high = hn::TableLookupBytes(upper, index);
    const V8 none = hn::Zero(d8);
    hn::StoreU(
        with_exponent(hn::InterleaveLower(d8, low, high), hn::InterleaveLower(d8, none, ordered)),
        d16, to);
    hn::StoreU(
        with_exponent(hn::InterleaveUpper(d8, low, high), hn::InterleaveUpper(d8, none, ordered)),
        d16, to + lanes / 2);
  };
  for (int64_t begin = 0; begin < count; begin += group, ++tables) {
    const V8 lower = hn::LoadDup128(d8, tables->lower);
    const V8 upper = hn::LoadDup128(d8, tables->upper);
    const int64_t end = std::min(begin + group, count);
    const auto* from = reinterpret_cast<const uint8_t*>(codes);
    auto* to = reinterpret_cast<int16_t*>(out);
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) look_up(lower, upper, from + i, to + i);
    if (i == end) continue;
    alignas(64) uint8_t last_codes[HWY_MAX_BYTES] = {};
    alignas(64) int16_t last_out[HWY_MAX_BYTES];
    std::memcpy(last_codes, from + i, static_cast<size_t>(end - i));
    look_up(lower, upper, last_codes, last_out);
    std::memcpy(out + 2 * i, last_out, static_cast<size_t>(2 * (end - i)));
  }
  return hn::AllFalse(d8, hn::Eq(nans, hn::Set(d8, 0x7f)));
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace weightloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weightloom {
namespace {

HWY_EXPORT(make_table);
HWY_EXPORT(look_up_nibbles);
HWY_EXPORT(look_up_floats);

// Numbers of F8_E4M3 with exponent 1, and its subnormal ones.
constexpr float kMantissas[16] = {8.0F / 512,  9.0F / 512,  10.0F / 512, 11.0F / 512,
                                  12.0F / 512, 13.0F / 512, 14.0F / 512, 15.0F / 512,
                                  0,           1.0F / 512,  2.0F / 512,  3.0F / 512,
                                  4.0F / 512,  5.0F / 512,  6.0F / 512,  7.0F / 512};

}  // namespace

bool look_up_codes(const LookupRow& row, std::byte* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(look_up_nibbles)(row, out);
}

bool fill_e4m3_table(float scale, LookupTable& table) noexcept {
  // Far from where BF16 ends, whichever exponent a code has.
  if (!(std::abs(scale) > 0x1p-100F && std::abs(scale) < 0x1p100F)) return false;
  HWY_DYNAMIC_DISPATCH(make_table)(kMantissas, scale, table);
  for (int i = 0; i < 8; ++i) {
    // Exponent 1 comes with the code.
    const int pattern = (table.lower[i] | (table.upper[i] << 8)) - (1 << 7);
    table.lower[i] = static_cast<uint8_t>(pattern & 0xff);
    table.upper[i] = static_cast<uint8_t>(pattern >> 8);
  }
  return true;
}

bool look_up_e4m3(const std::byte* codes, int64_t count, int64_t group,
                  std::span<const LookupTable> tables, std::byte* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(look_up_floats)(codes, count, group, tables.data(), out);
}

}  // namespace weightloom
#endif
