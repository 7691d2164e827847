// Shell globs over names.
#pragma once

#include <string>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// True if `name` matches the shell glob (`*` matches any run, "/" and "." too).
bool glob_matches(const std::string& glob, const std::string& name);

}  // namespace weightloom
