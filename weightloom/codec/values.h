// The numbers that elements stand for.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "weightloom/base/dtype.h"
#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// False for types under 8 bits (F4, F6_E2M3, F6_E3M2) and for C64, whose elements are no single
/// number of whole bytes; true for all others.
bool has_values(DType dtype) noexcept;

/// The number that each element of `in` stands for.
/// Shape:  in holds out.size() elements, without any alignment.
/// Law:    exact, but for I64 and U64 beyond 2^53, which are rounded to nearest. BOOL: 1 for every
///         byte but 0. F8_E8M0: 2^(byte - 127). NaN where the type has one; F8_E4M3 and the FNUZ
///         types have no infinities.
/// Errors: unsupported if !has_values(dtype); usage if the sizes do not agree.
void to_double(DType dtype, std::span<const std::byte> in, std::span<double> out);

}  // namespace weightloom
