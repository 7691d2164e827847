// Sizes as people write them: "5GB" (decimal), "1GiB" (binary), "123" (bytes).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Digits with an optional fraction, then "", B, KB, MB, GB, TB, KiB, MiB, GiB or TiB (any case).
/// Errors: usage if it is no such text, is not positive, or exceeds int64.
int64_t parse_byte_size(std::string_view text);
/// At most four digits and a binary unit: "3.40 GiB", "812 B".
std::string format_byte_size(int64_t size_bytes);

}  // namespace weightloom
