// What to tell a user whose command line makes no sense.
#pragma once

#include <CLI/CLI.hpp>

#include "weightloom/base/error.h"

namespace weightloom::cli {

/// A failed parse as one sentence. `verb` is null if the arguments named none.
Error usage_error(const CLI::App& app, const CLI::App* verb, const CLI::ParseError& error);

}  // namespace weightloom::cli
