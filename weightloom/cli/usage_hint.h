// What to tell a user whose command line makes no sense.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "weightloom/base/error.h"

namespace weightloom::cli {

/// Of `words`, the one that takes the fewest typos (insert, remove, replace a letter) to become
/// `wrong`; empty if each takes more than a third of its letters.
std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words);

/// A failed parse as one sentence. `verb` is null if the arguments named none.
Error usage_error(const CLI::App& app, const CLI::App* verb, const CLI::ParseError& error);

}  // namespace weightloom::cli
