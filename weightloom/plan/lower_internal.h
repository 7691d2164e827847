// Emission: a layout in elements becomes regions in bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/layout/layout.h"

namespace weightloom {

/// Coalesced byte regions of a layout whose target and sources have one dtype, or why not:
/// a sub-byte type whose offsets, runs or strides do not fall on bytes, or a pad that has no
/// all-zero encoding.
struct Lowered {
  std::vector<Region> regions;
  std::optional<std::string> refusal;
};
/// Units: elements in, bytes out.
Lowered lower_to_bytes(Layout layout, DType dtype);

}  // namespace weightloom
