// The manual page, written from the outline of the command line.
#pragma once

#include <string>

#include "weightloom/cli/command_outline.h"

namespace weightloom::cli {

/// weightloom(1) in man(7) macros.
std::string manual_page(const CommandOutline& outline);

}  // namespace weightloom::cli
