#include "weightloom/base/dtype.h"

#include <array>

namespace weightloom {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
};

// In the order of the enumeration.
constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};
static_assert(kRows[static_cast<int>(DType::U64)].name == "U64");

}  // namespace

int bits(DType dtype) noexcept { return kRows[static_cast<size_t>(dtype)].bits; }

std::string_view to_string(DType dtype) noexcept { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace weightloom
