// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weightloom::cli {

/// "7.24 B", "12.5 M", "812": three digits and K, M, B or T for powers of a thousand.
std::string parameters_text(int64_t parameters);
/// "1 tensor", "2 tensors".
std::string count_text(int64_t count, std::string_view noun);

}  // namespace weightloom::cli
