#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/mapping/spelling.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom::internal {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 100;

/// Sees every key as the parser meets it, since the parsed object has lost the duplicates.
class KeyWatch {
 public:
  KeyWatch(std::string_view file, ErrorCode code) : file_(file), code_(code) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) refuse(fmt::format("nested more than {} levels deep", kMaxDepth));
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!open_.back().insert(key).second) refuse(fmt::format("duplicate key '{}'", key));
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(code_, fmt::format("{}: {}", file_, why));
  }

  std::string_view file_;
  ErrorCode code_;
  std::vector<std::set<std::string>> open_;
};

/// The library's message without its own identifier: "parse error at line 1, column 5: …".
std::string_view parse_message(const json::exception& error) {
  const std::string_view text = error.what();
  const auto bracket = text.find("] ");
  return bracket == text.npos ? text : text.substr(bracket + 2);
}

std::string suggestion(const std::string& key, const std::vector<std::string_view>& allowed) {
  const std::vector<std::string> candidates(allowed.begin(), allowed.end());
  const auto near = closest(key, candidates, 1);
  return near.empty() ? "" : fmt::format(": did you mean '{}'?", near.front());
}

json parse_watched(std::string_view text, std::string_view file, ErrorCode code) {
  try {
    KeyWatch watch(file, code);
    return json::parse(text, [&watch](int depth, json::parse_event_t event, json& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const json::exception& error) {
    throw Error(code, fmt::format("{}: not JSON: {}", file, parse_message(error)));
  }
}

}  // namespace

json parse_json_object(std::string_view text, std::string_view file, ErrorCode code) {
  json value = parse_watched(text, file, code);
  if (!value.is_object()) {
    throw Error(code, fmt::format("{}: must be a JSON object, but is {} {}", file,
                                  value.is_array() ? "an" : "a", value.type_name()));
  }
  return value;
}

json parse_json_list(std::string_view text, std::string_view file, ErrorCode code) {
  json value = parse_watched(text, file, code);
  if (!value.is_array()) {
    throw Error(code, fmt::format("{}: must be a JSON list, but is {} {}", file,
                                  value.is_object() ? "an" : "a", value.type_name()));
  }
  return value;
}

StrictObject::StrictObject(const json& value, std::string where, ErrorCode code,
                           const std::vector<std::string_view>& allowed)
    : value_(value), where_(std::move(where)), code_(code) {
  if (!value.is_object()) refuse(fmt::format("must be an object, not {}", value.type_name()));
  const std::set<std::string_view> known(allowed.begin(), allowed.end());
  for (const auto& [key, unused] : value.items()) {
    if (known.contains(key)) continue;
    refuse(fmt::format("unknown key '{}'{}", key, suggestion(key, allowed)));
  }
}

const json& StrictObject::at(const std::string& key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) refuse(fmt::format("'{}' is missing", key));
  return *found;
}

std::string StrictObject::text(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_string()) refuse(fmt::format("'{}' must be a string", key));
  return value.get<std::string>();
}

int64_t StrictObject::integer(const std::string& key) const {
  const auto number = to_integer(at(key));
  if (!number) refuse(fmt::format("'{}' must be a whole number", key));
  return *number;
}

std::vector<std::string> StrictObject::texts(const std::string& key) const {
  std::vector<std::string> texts;
  for (const json& item : list(key)) {
    if (!item.is_string()) refuse(fmt::format("'{}' must be a list of strings", key));
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<int64_t> StrictObject::integers(const std::string& key) const {
  std::vector<int64_t> integers;
  for (const json& item : list(key)) {
    const auto number = to_integer(item);
    if (!number) refuse(fmt::format("'{}' must be a list of whole numbers", key));
    integers.push_back(*number);
  }
  return integers;
}

const json& StrictObject::list(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_array()) refuse(fmt::format("'{}' must be a list", key));
  return value;
}

bool StrictObject::flag(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) refuse(fmt::format("'{}' must be true or false", key));
  return at(key).get<bool>();
}

void StrictObject::refuse(const std::string& why) const {
  throw Error(code_, fmt::format("{}: {}", where_, why));
}

std::optional<int64_t> to_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace weightloom::internal
