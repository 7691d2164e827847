#include "weightloom/base/quote.h"

#include <fmt/format.h>

namespace weightloom {
namespace {

constexpr size_t kLongestWhole = 300;
constexpr size_t kShownEnd = 140;

void append_printable(std::string& to, std::string_view text) {
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      to += fmt::format("\\x{:02x}", byte);
    } else {
      to += c;
    }
  }
}

bool continues_a_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "'";
  if (text.size() <= kLongestWhole) {
    append_printable(result, text);
  } else {
    size_t head = kShownEnd;
    while (head > 0 && continues_a_character(text[head])) --head;
    size_t tail = text.size() - kShownEnd;
    while (tail < text.size() && continues_a_character(text[tail])) ++tail;
    append_printable(result, text.substr(0, head));
    result += fmt::format("… ({} bytes) …", text.size());
    append_printable(result, text.substr(tail));
  }
  result += '\'';
  return result;
}

}  // namespace weightloom
