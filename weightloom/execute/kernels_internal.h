// Kernels: strided copies in memory. They allocate nothing that grows with the data and never
// throw.
#pragma once

#include <cstddef>

#include "weightloom/layout/layout.h"

namespace weightloom {

/// Copies a region: bytes at source + source_offset + Σ kᵢ·source_strideᵢ go to the like target
/// places.
/// Units: bytes. Precondition: the region's axes are normalized; the sides do not overlap.
/// Rows are copied by memcpy; elements of 1, 2, 4, 8 or 16 bytes that change order by a blocked
/// transpose.
void copy_region(const Region& region, const std::byte* source, std::byte* target) noexcept;

/// Writes zeros to the target side of a region.
void fill_region(const Region& region, std::byte* target) noexcept;

}  // namespace weightloom
