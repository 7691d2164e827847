#include "weightloom/cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "weightloom/base/file.h"

namespace weightloom::cli {
namespace {

bool is_control(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

bool continues_a_character(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

bool environment_has(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string_view escape_of(Style style) noexcept {
  switch (style) {
    case Style::plain:
      return "";
    case Style::bold:
      return "\x1b[1m";
    case Style::red:
      return "\x1b[31m";
    case Style::yellow:
      return "\x1b[33m";
    case Style::green:
      return "\x1b[32m";
    case Style::dim:
      return "\x1b[2m";
  }
  __builtin_unreachable();
}

}  // namespace

Terminal terminal_of(std::FILE* stream) {
  Terminal terminal;
  const int fd = fileno(stream);
  terminal.interactive = isatty(fd) == 1;
  terminal.colour = terminal.interactive && !environment_has("NO_COLOR");
  winsize size{};
  if (terminal.interactive && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  return terminal;
}

std::string styled(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || style == Style::plain) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape_of(style), text);
}

std::string printable(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), is_control)) return std::string(text);
  std::string result;
  for (char c : text) {
    if (is_control(c)) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

int display_columns(std::string_view text) noexcept {
  const auto inner = std::count_if(text.begin(), text.end(), continues_a_character);
  return static_cast<int>(static_cast<std::ptrdiff_t>(text.size()) - inner);
}

std::string_view first_columns(std::string_view text, int columns) noexcept {
  size_t end = 0;
  for (int taken = 0; end < text.size(); ++end) {
    if (!continues_a_character(text[end]) && ++taken > columns) break;
  }
  return text.substr(0, end);
}

void write_stdout(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  throw system_error(errno, "write to", "standard output");
}

void write_stderr(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace weightloom::cli
