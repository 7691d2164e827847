// The JSON that `--json` prints: one value, written as it is known. Nothing is built in memory
// first, since a checkpoint of 92,000 tensors is as many objects.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weightloom::cli {

/// Writes compact JSON in the order of the calls. Each begin has its end; in an object each value
/// follows its key.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return begin('{'); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('['); }
  JsonWriter& end_array() { return end(']'); }
  JsonWriter& key(std::string_view name);

  /// Bytes that are no UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(std::same_as<bool> auto truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(int64_t number);
  JsonWriter& value(double number);
  JsonWriter& value(std::span<const int64_t> numbers);

  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  /// The text with a newline at its end; the writer is done.
  std::string finish() &&;

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();

  std::string text_;
  bool after_value_ = false;
};

}  // namespace weightloom::cli
