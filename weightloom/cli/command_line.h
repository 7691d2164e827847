// From the arguments of the process to its exit code: finds the verb, runs it, tells its failure.
#pragma once

#include <span>
#include <string>

#include "weightloom/cli/command.h"

namespace weightloom::cli {

/// `arguments` are those after the program's name. Prints everything; throws nothing.
ExitCode run_command_line(std::span<const char* const> arguments, const CommandContext& context);

}  // namespace weightloom::cli
