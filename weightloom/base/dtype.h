// Element types, spelled as safetensors 0.8 spells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// In the order in which the safetensors package sorts tensors (its writer puts later ones first).
enum class DType : uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};

inline constexpr int kDTypeCount = 22;  ///< Number of dtypes.

/// Width of one element in bits: 4 or 6 for the sub-byte types, else a multiple of 8.
int bits(DType dtype) noexcept;
/// Its spelling in safetensors, ended by a NUL: "BF16".
std::string_view to_string(DType dtype) noexcept;
/// Nothing if `name` is no dtype of safetensors 0.8.
std::optional<DType> parse_dtype(std::string_view name) noexcept;

}  // namespace weightloom
