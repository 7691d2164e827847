#include "weightloom/cli/terminal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "weightloom/base/file.h"

namespace weightloom::cli {
namespace {

/// How many bytes the control character at the start of `text` takes; 0 if there is none. Those
/// beyond ASCII steer a terminal too: U+0080 to U+009F, and the marks that turn the direction.
size_t control_length(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  const bool is_embedding = byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae;
  const bool is_isolate = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return byte(0) == 0xe2 && (is_embedding || is_isolate) ? 3 : 0;
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

void occupy_standard_streams() noexcept {
  constexpr std::array<int, 3> kWrongWay = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = 0; fd < 3; ++fd) {
    const bool is_open = fcntl(fd, F_GETFD) >= 0;
    if (!is_open) open("/dev/null", kWrongWay[static_cast<size_t>(fd)]);
  }
}

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
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = control_length(text);
    if (length == 0) result += text.front();
    for (char c : text.substr(0, length)) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
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
