// How a failure is told.
#pragma once

#include <string>

#include "weightloom/base/error.h"
#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

/// All findings, then the closing line; only that when it says all that its one finding says.
std::string failure_text(const std::string& who, const Error& error, bool lenient,
                         const Terminal& on);
/// One line: `weightloom plan: MESSAGE; next: NEXT STEP`. `who` is the program with its verb.
std::string closing_line(const std::string& who, const Error& error, const Terminal& on);

/// `{"error": {code, message, next_step}, "findings": […]}`.
std::string failure_json(const Error& error);

}  // namespace weightloom::cli
