// What a stream is shown on, and text made fit for it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace weightloom::cli {

/// Opens those of the three standard streams that the caller closed, so that no output file gets
/// their number and takes a message for data. They lead nowhere, and using them still fails.
void occupy_standard_streams() noexcept;

struct Terminal {
  bool interactive = false;  // a terminal, not a file or pipe
  bool colour = false;       // interactive, and NO_COLOR is not set
  int columns = 80;
};
Terminal terminal_of(std::FILE* stream);

enum class Style { plain, bold, red, yellow, green, dim };
/// `text` in a style, or as it is without colour.
std::string styled(const Terminal& terminal, Style style, std::string_view text);

/// `text` with the bytes of control characters, those of Unicode too, as \xNN: names come from
/// files and must not steer the terminal.
std::string printable(std::string_view text);
/// How many columns `text` (UTF-8) takes, one per character.
int display_columns(std::string_view text) noexcept;
/// The longest start of `text` that takes at most `columns`.
std::string_view first_columns(std::string_view text, int columns) noexcept;

/// Writes to stdout at once.
/// Errors: io (a closed pipe, a full disk).
void write_stdout(std::string_view text);
/// Writes to stderr; a failure has nowhere to go.
void write_stderr(std::string_view text) noexcept;

}  // namespace weightloom::cli
