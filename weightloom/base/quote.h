// Names from files as messages show them.
#pragma once

#include <string>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// `text` in single quotes. Control characters, which could rewrite a terminal, are shown as
/// `\xNN`; the middle of a text of more than 300 bytes is left out.
std::string quote(std::string_view text);

}  // namespace weightloom
