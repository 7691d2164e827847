// parse_index and format_index: the index of a sharded checkpoint, text ↔ value.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightloom/base/quote.h"
#include "weightloom/safetensors/checkpoint.h"
#include "weightloom/safetensors/json_text_internal.h"
#include "weightloom/safetensors/name_table.h"

namespace weightloom {
namespace {

using simdjson::dom::element;

Error refusal(std::string_view file, std::string_view fault) {
  return Error(ErrorCode::format, fmt::format("{}: {}", file, fault));
}

std::pair<std::string, std::string> parse_entry(std::string_view name, element value,
                                                std::string_view file) {
  if (name.find('\0') != std::string_view::npos) {
    throw refusal(file, fmt::format("tensor {}: the name holds a NUL", quote(name)));
  }
  std::string_view shard;
  if (value.get(shard)) {
    throw refusal(file, fmt::format("tensor {}: the shard is {}, but a file name is needed",
                                    quote(name), kind_of(value)));
  }
  if (auto fault = fault_of_file_name(shard); !fault.empty()) {
    throw refusal(file,
                  fmt::format("tensor {}: the shard {} is {}", quote(name), quote(shard), fault));
  }
  return {std::string(name), std::string(shard)};
}

void parse_weight_map(element value, std::string_view file, Index& index) {
  simdjson::dom::object entries;
  if (value.get(entries)) {
    throw refusal(file, fmt::format("weight_map is {}, but an object is needed", kind_of(value)));
  }
  auto& map = index.weight_map;
  map.reserve(entries.size());
  for (auto [name, shard] : entries) map.push_back(parse_entry(name, shard, file));
  // Most writers sort, and then equal names would stand side by side.
  auto not_before = [](const auto& a, const auto& b) { return a.first >= b.first; };
  if (std::adjacent_find(map.begin(), map.end(), not_before) == map.end()) return;
  NameTable names(map.size());
  auto name_at = [&](int32_t i) -> std::string_view { return map[static_cast<size_t>(i)].first; };
  for (size_t i = 0; i < map.size(); ++i) {
    if (names.insert(map[i].first, static_cast<int32_t>(i), name_at)) {
      throw refusal(file, fmt::format("tensor {}: the name stands in the weight_map twice",
                                      quote(map[i].first)));
    }
  }
}

/// Some tools write sizes as 1.5e10. Sizes only inform, so what is no whole number counts as
/// absent.
std::optional<int64_t> whole_number(element value) {
  int64_t number = 0;
  if (!value.get(number)) return number;
  double real = 0;
  if (value.get(real) || real != std::floor(real) || std::abs(real) > 9e18) return std::nullopt;
  return static_cast<int64_t>(real);
}

void parse_index_metadata(element value, std::string_view file, Index& index) {
  if (value.is_null()) return;
  simdjson::dom::object entries;
  if (value.get(entries)) {
    throw refusal(file, fmt::format("metadata is {}, but an object is needed", kind_of(value)));
  }
  for (auto [key, entry] : entries) {
    if (key == "total_size") index.total_size = whole_number(entry);
    if (key == "total_parameters") index.total_parameters = whole_number(entry);
  }
}

}  // namespace

std::string_view fault_of_file_name(std::string_view name) noexcept {
  if (name.empty()) return "an empty file name";
  if (name.find('\0') != std::string_view::npos) return "a file name with a NUL";
  if (name.find('\\') != std::string_view::npos) return "a file name with a backslash";
  if (name.front() == '/') return "an absolute path";
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    auto part = name.substr(begin, end - begin);
    if (part == "..") return "a path with '..', which could leave the folder";
    if (part.empty() || part == ".") return "a path with an empty or '.' part";
    begin = end + 1;
  }
  return {};
}

Index parse_index(const std::string& json, std::string_view file) {
  simdjson::dom::parser parser;
  Index index;
  bool has_map = false;
  bool has_metadata = false;
  for (auto [key, value] : parse_json_object(parser, json, file)) {
    bool* seen = key == "weight_map" ? &has_map : key == "metadata" ? &has_metadata : nullptr;
    if (seen == nullptr) continue;
    if (std::exchange(*seen, true)) {
      throw refusal(file, fmt::format("the key {} stands there twice", key));
    }
    if (key == "weight_map") {
      parse_weight_map(value, file, index);
    } else {
      parse_index_metadata(value, file, index);
    }
  }
  if (!has_map) throw refusal(file, "the key weight_map is missing, so this is no index");
  return index;
}

std::string format_index(const Index& index) {
  nlohmann::json root = {{"metadata", nlohmann::json::object()},
                         {"weight_map", nlohmann::json::object()}};
  if (index.total_parameters) root["metadata"]["total_parameters"] = *index.total_parameters;
  if (index.total_size) root["metadata"]["total_size"] = *index.total_size;
  auto& map = root["weight_map"].get_ref<nlohmann::json::object_t&>();
  for (const auto& [name, shard] : index.weight_map) map[name] = shard;
  try {
    return root.dump(2, ' ', true) + "\n";
  } catch (const nlohmann::json::type_error&) {
    throw Error(ErrorCode::usage, "the index holds a name that is not UTF-8");
  }
}

}  // namespace weightloom
