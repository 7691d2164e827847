#include "weightloom/base/hash.h"

#include <fmt/format.h>

namespace weightloom {

std::string to_hex(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace weightloom
