#include "weightloom/version.h"

namespace weightloom {

std::string_view version() noexcept { return WEIGHTLOOM_VERSION; }

}  // namespace weightloom
