#include "weightloom/cli/json_output.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weightloom::cli {
namespace {

bool needs_escape(char c) noexcept { return c < 0x20 || c > 0x7e || c == '"' || c == '\\'; }

/// `text` as a JSON string. Plain names, nearly all there are, are copied as they stand.
void append_string(std::string& to, std::string_view text) {
  if (std::any_of(text.begin(), text.end(), needs_escape)) {
    to += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return;
  }
  to += '"';
  to += text;
  to += '"';
}

}  // namespace

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_string(text_, name);
  text_ += ':';
  after_value_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_string(text_, text);
  return *this;
}

JsonWriter& JsonWriter::value(int64_t number) {
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::value(std::span<const int64_t> numbers) {
  begin_array();
  for (int64_t number : numbers) value(number);
  return end_array();
}

std::string JsonWriter::finish() && {
  text_ += '\n';
  return std::move(text_);
}

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  text_ += bracket;
  after_value_ = false;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  text_ += bracket;
  after_value_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

void JsonWriter::separate() {
  if (after_value_) text_ += ',';
  after_value_ = true;
}

}  // namespace weightloom::cli
