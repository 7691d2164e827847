// Completion scripts for shells, written from the outline of the command line.
//
// What they complete: verbs; a verb's flags; the words that a flag takes (`--to hub`), after a
// blank or an equals sign; paths where a path is wanted. They call nothing but the shell.
#pragma once

#include <string>

#include "weightloom/cli/command_outline.h"

namespace weightloom::cli {

/// For `source`, or as a file "weightloom" in bash-completion's folder.
std::string bash_completion(const CommandOutline& outline);
/// A file "_weightloom" in a folder of $fpath.
std::string zsh_completion(const CommandOutline& outline);
/// A file "weightloom.fish" in fish's completions.
std::string fish_completion(const CommandOutline& outline);

}  // namespace weightloom::cli
