// Emission: a layout in elements becomes regions in bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/layout/layout.h"

namespace weightloom {

/// Coalesced byte regions of a layout, or why not: a sub-byte type whose offsets, runs or strides
/// do not fall on bytes, or a pad that has no all-zero encoding.
struct Lowered {
  std::vector<Region> regions;
  std::optional<std::string> refusal;
};
/// Units: elements in, bytes out. Target and sources have one dtype.
Lowered lower_to_bytes(Layout layout, DType dtype);

/// As above for sources of any dtype: regions whose source differs cast (program.h), each side with
/// its own width.
/// Precondition: where they differ, both dtypes are castable.
Lowered lower_to_bytes(Layout layout, DType dtype,
                       const std::function<DType(SourceId)>& source_dtype);

}  // namespace weightloom
