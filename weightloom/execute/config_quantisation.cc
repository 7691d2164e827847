// What config.json says of quantised tensors, edited in place.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "weightloom/execute/config_edit_internal.h"
#include "weightloom/execute/json_spans_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kText = "text_config";
constexpr std::array<std::string_view, 2> kKeys = {kKey, "compression_config"};
constexpr std::array<std::string_view, 6> kModuleLists = {
    "modules_to_not_convert", "modules_to_convert", "ignored_layers", "ignore",
    "llm_int8_skip_modules",  "exclude_modules"};
constexpr std::string_view kRegex = "re:";

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// The root, and the object of the text model if there is one.
std::vector<JsonSpan> config_objects(std::string_view text) {
  std::vector<JsonSpan> objects = {json_root(text)};
  if (const auto inner = json_member(text, objects[0], kText)) objects.push_back(inner->value);
  return objects;
}

/// A member among those of its object.
struct Place {
  std::vector<JsonMember> members;
  size_t at = 0;

  const JsonMember& member() const { return members[at]; }
};

/// Where a config says how tensors are quantised, the root first.
std::vector<Place> quantisations(std::string_view text) {
  std::vector<Place> places;
  for (const JsonSpan& object : config_objects(text)) {
    if (text.empty() || text[object.begin] != '{') continue;
    const auto members = json_members(text, object);
    for (size_t i = 0; i < members.size(); ++i) {
      if (is_one_of(kKeys, members[i].key)) places.push_back({members, i});
    }
  }
  return places;
}

std::string replaced(std::string_view text, const JsonSpan& span, std::string_view by) {
  return std::string(text.substr(0, span.begin)) + std::string(by) +
         std::string(text.substr(span.end));
}

/// The spaces before a member that begins a line; nothing if something else stands before it.
std::optional<std::string> indent_of(std::string_view text, size_t begin) {
  const size_t line = text.find_last_of('\n', begin);
  if (line == text.npos) return std::nullopt;
  const auto indent = text.substr(line + 1, begin - line - 1);
  if (indent.find_first_not_of(" \t") != indent.npos) return std::nullopt;
  return std::string(indent);
}

/// JSON as Python's json writes it on one line.
std::string one_line(const nlohmann::ordered_json& value) {
  if (!value.is_object() && !value.is_array()) return value.dump();
  std::string text;
  for (const auto& item : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += nlohmann::json(item.key()).dump() + ": ";
    text += one_line(item.value());
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

/// The value as it stands behind a key that is indented so, or on one line.
std::string written(std::string_view value, const std::optional<std::string>& indent) {
  const auto json = nlohmann::ordered_json::parse(value);
  if (!indent) return one_line(json);
  const bool has_tabs = indent->find('\t') != indent->npos;
  const std::string dumped =
      has_tabs ? json.dump(1, '\t')
               : json.dump(indent->empty() ? 2 : static_cast<int>(indent->size()));
  std::string text;
  for (const char c : dumped) {
    text += c;
    if (c == '\n') text += *indent;
  }
  return text;
}

std::string with_member_behind(std::string_view text, std::string_view value) {
  const JsonSpan root = json_root(text);
  const auto members = json_members(text, root);
  const std::string key = "\"" + std::string(kKey) + "\": ";
  if (members.empty()) {
    return replaced(text, {root.begin + 1, root.end - 1}, key + written(value, std::nullopt));
  }
  const JsonMember& last = members.back();
  const auto indent = indent_of(text, last.whole.begin);
  const std::string space = indent ? "\n" + *indent : " ";
  return replaced(text, {last.whole.end, last.whole.end},
                  "," + space + key + written(value, indent));
}

/// Renames what the lists of modules name, one list after the other.
class ModuleNames {
 public:
  ModuleNames(std::string_view text, const std::function<std::string(std::string_view)>& rename)
      : rename_(rename) {
    result_.text = text;
  }

  RenamedModules run() && {
    // From the end of the text, so that what comes before keeps its place.
    auto places = quantisations(result_.text);
    std::ranges::sort(places, std::greater<>(),
                      [](const Place& place) { return place.member().whole.begin; });
    for (const Place& place : places) rename_lists_in(place.member().value, "");
    std::ranges::reverse(result_.patterns);
    return std::move(result_);
  }

 private:
  void rename_lists_in(const JsonSpan& value, std::string_view key) {
    const bool is_object = result_.text[value.begin] == '{';
    const bool is_targets = key == "targets";
    if (!is_object) {
      if (is_targets || is_one_of(kModuleLists, key)) rename_list(value, is_targets);
      return;
    }
    auto members = json_members(result_.text, value);
    std::ranges::reverse(members);
    for (const JsonMember& member : members) rename_lists_in(member.value, member.key);
  }

  /// The name that takes an item's place; nothing if the item stays as it is.
  std::optional<std::string> renamed(const JsonSpan& item, bool is_targets) {
    const std::string_view text =
        std::string_view(result_.text).substr(item.begin, item.end - item.begin);
    if (text.empty() || text.front() != '"') return std::nullopt;
    auto name = nlohmann::json::parse(text).get<std::string>();
    if (name.starts_with(kRegex)) {
      result_.patterns.push_back(std::move(name));
      return std::nullopt;
    }
    if (is_targets && name.find('.') == name.npos) return std::nullopt;  // a class
    return rename_(name);
  }

  void rename_list(const JsonSpan& list, bool is_targets) {
    if (result_.text[list.begin] != '[') return;
    const auto items = json_members(result_.text, list);
    std::vector<std::optional<std::string>> names(items.size());
    for (size_t i = items.size(); i-- > 0;) names[i] = renamed(items[i].value, is_targets);
    // Which items repeat an earlier one; from the end, so that places stay true.
    std::vector<bool> repeats(items.size(), false);
    std::set<std::string> seen;
    for (size_t i = 0; i < items.size(); ++i) {
      if (names[i]) repeats[i] = !seen.insert(*names[i]).second;
    }
    for (size_t i = items.size(); i-- > 0;) {
      if (repeats[i]) {
        result_.text =
            json_without(result_.text, json_members(result_.text, json_at(list.begin)), i);
      } else if (names[i]) {
        const auto old =
            std::string_view(result_.text)
                .substr(items[i].value.begin, items[i].value.end - items[i].value.begin);
        if (nlohmann::json::parse(old).get<std::string>() == *names[i]) continue;
        result_.text = replaced(result_.text, items[i].value, nlohmann::json(*names[i]).dump());
      }
    }
  }

  /// The value that begins there, wherever it ends by now.
  JsonSpan json_at(size_t begin) const {
    const std::string_view text = result_.text;
    const JsonSpan span = json_root(text.substr(begin));
    return {begin, begin + span.end};
  }

  const std::function<std::string(std::string_view)>& rename_;
  RenamedModules result_;
};

}  // namespace

std::string config_without_quantisation(std::string_view json) {
  std::string text(json);
  for (auto places = quantisations(text); !places.empty(); places = quantisations(text)) {
    text = json_without(text, places.back().members, places.back().at);
  }
  return text;
}

std::string config_with_quantisation(std::string_view json, std::string_view value) {
  std::string text(json);
  auto places = quantisations(text);
  while (places.size() > 1) {
    text = json_without(text, places.back().members, places.back().at);
    places = quantisations(text);
  }
  if (places.empty()) return with_member_behind(text, value);
  const JsonMember& member = places.front().member();
  const auto indent = indent_of(text, member.whole.begin);
  return replaced(text, member.whole, "\"" + std::string(kKey) + "\": " + written(value, indent));
}

RenamedModules renamed_modules(std::string_view json,
                               const std::function<std::string(std::string_view)>& rename) {
  return ModuleNames(json, rename).run();
}

}  // namespace weightloom
