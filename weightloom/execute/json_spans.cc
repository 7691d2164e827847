#include <algorithm>

#include <nlohmann/json.hpp>

#include "weightloom/execute/json_spans_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t skip_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

/// Behind the string that begins at `at`.
size_t end_of_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

/// Behind the brackets that begin at `at`.
size_t end_of_brackets(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

/// Behind the value that begins at `at`.
size_t end_of_value(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  if (text[at] == '"') return end_of_string(text, at);
  if (text[at] == '{' || text[at] == '[') return end_of_brackets(text, at);
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

JsonMember member_at(std::string_view text, size_t at, bool has_key) {
  JsonMember member;
  member.whole.begin = at;
  if (has_key) {
    const size_t end = end_of_string(text, at);
    member.key = nlohmann::json::parse(text.substr(at, end - at)).get<std::string>();
    const size_t colon = skip_space(text, end);
    at = skip_space(text, std::min(colon + 1, text.size()));
  }
  member.value = {at, end_of_value(text, at)};
  member.whole.end = member.value.end;
  return member;
}

}  // namespace

JsonSpan json_root(std::string_view text) {
  const size_t begin = skip_space(text, 0);
  return {begin, end_of_value(text, begin)};
}

std::vector<JsonMember> json_members(std::string_view text, const JsonSpan& value) {
  std::vector<JsonMember> members;
  if (value.begin >= value.end) return members;
  const char open = text[value.begin];
  if (open != '{' && open != '[') return members;
  size_t at = skip_space(text, value.begin + 1);
  while (at < value.end && text[at] != '}' && text[at] != ']') {
    members.push_back(member_at(text, at, open == '{'));
    at = skip_space(text, members.back().whole.end);
    if (at < value.end && text[at] == ',') at = skip_space(text, at + 1);
  }
  return members;
}

std::optional<JsonMember> json_member(std::string_view text, const JsonSpan& value,
                                      std::string_view key) {
  if (value.begin >= value.end || text[value.begin] != '{') return std::nullopt;
  for (JsonMember& member : json_members(text, value)) {
    if (member.key == key) return std::move(member);
  }
  return std::nullopt;
}

std::string json_without(std::string_view text, const std::vector<JsonMember>& members, size_t at) {
  JsonSpan gone = members[at].whole;
  if (at + 1 < members.size()) {
    gone.end = members[at + 1].whole.begin;
  } else if (at > 0) {
    gone.begin = members[at - 1].whole.end;
  } else {
    gone.begin = text.find_last_not_of(kSpace, gone.begin - 1) + 1;
  }
  return std::string(text.substr(0, gone.begin)) + std::string(text.substr(gone.end));
}

}  // namespace weightloom
