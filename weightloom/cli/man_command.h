// `weightloom man`.
#pragma once

#include <memory>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

std::unique_ptr<Command> make_man_command();

}  // namespace weightloom::cli
