// `weightloom plan`.
#pragma once

#include <memory>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

std::unique_ptr<Command> make_plan_command();

}  // namespace weightloom::cli
