// JSON as this room reads it: no duplicate keys, no unknown keys, every message with file and
// place. Private to the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "weightloom/base/error.h"

namespace weightloom::internal {

/// Errors: `code`, naming `file` and the place, if `text` is no JSON object, has a duplicate key or
/// is nested beyond reason.
nlohmann::json parse_json_object(std::string_view text, std::string_view file, ErrorCode code);
/// As parse_json_object, of a list.
nlohmann::json parse_json_list(std::string_view text, std::string_view file, ErrorCode code);

/// A whole number that int64 holds; nothing for anything else.
std::optional<int64_t> to_integer(const nlohmann::json& value);

/// An object of a file form, read key by key.
class StrictObject {
 public:
  /// `where` begins every message.
  /// Errors: `code` if `value` is no object or has a key that is not
  /// `allowed`.
  StrictObject(const nlohmann::json& value, std::string where, ErrorCode code,
               const std::vector<std::string_view>& allowed);

  bool has(const std::string& key) const { return value_.contains(key); }
  /// All of these throw if the key is absent or of another kind.
  const nlohmann::json& at(const std::string& key) const;
  std::string text(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  /// A list of strings.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;
  const nlohmann::json& list(const std::string& key) const;
  /// `otherwise` if absent.
  bool flag(const std::string& key, bool otherwise) const;

  const std::string& where() const noexcept { return where_; }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
  ErrorCode code_;
};

}  // namespace weightloom::internal
