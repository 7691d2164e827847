// `weightloom repair-index`.
#pragma once

#include <memory>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

std::unique_ptr<Command> make_repair_index_command();

}  // namespace weightloom::cli
