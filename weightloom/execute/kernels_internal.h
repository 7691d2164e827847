// Kernels: strided copies and casts in memory. They allocate nothing that grows with the data and
// never throw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/base/dtype.h"
#include "weightloom/layout/layout.h"

namespace weightloom {

/// Copies a region: bytes at source + source_offset + Σ kᵢ·source_strideᵢ go to the like target
/// places.
/// Units: bytes. Precondition: the region's axes are normalized; the sides do not overlap.
/// Rows are copied by memcpy; elements of 1, 2, 4, 8 or 16 bytes that change order by a blocked
/// transpose.
void copy_region(const Region& region, const std::byte* source, std::byte* target) noexcept;

/// Casts a region: each element of `from` at source + source_offset + Σ kᵢ·source_strideᵢ becomes
/// one of `to` at the like target place. Gives how many were finite and are infinite now.
/// Units: offsets and strides are bytes of their side, a point is an element. Preconditions: as
/// copy_region, and from and to are castable and differ.
/// Runs that are contiguous on both sides are cast in place; all others by blocks that are
/// gathered, cast and scattered in the first-level cache.
int64_t cast_region(const Region& region, DType from, DType to, const std::byte* source,
                    std::byte* target) noexcept;

/// Writes zeros to the target side of a region.
void fill_region(const Region& region, std::byte* target) noexcept;

}  // namespace weightloom
