// The numbers in names: experts.11, layers.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weightloom {

/// Decimal digits without leading zero that int32 holds; nothing for anything else.
std::optional<int64_t> parse_index(std::string_view text) noexcept;

}  // namespace weightloom
