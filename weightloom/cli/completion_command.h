// `weightloom completion`.
#pragma once

#include <memory>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

std::unique_ptr<Command> make_completion_command();

}  // namespace weightloom::cli
