#include "weightloom/mapping/model_config.h"

#include <utility>

#include <fmt/format.h>

#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

/// Python writes NaN, Infinity and -Infinity, which JSON does not have. No integer is lost when
/// each becomes 0.0, and the text keeps its length, so that places in messages stay true.
std::string without_non_finite(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string json(text);
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '"') in_string = !in_string;
    if (in_string && json[at] == '\\') ++at;
    if (in_string) continue;
    for (const auto word : kWords) {
      if (json.compare(at, word.size(), word) != 0) continue;
      json.replace(at, word.size(), "0.0" + std::string(word.size() - 3, ' '));
      break;
    }
  }
  return json;
}

std::string text_or_empty(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> texts_or_empty(const nlohmann::json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const auto& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

/// What stands at a path of keys; null if there is nothing.
const nlohmann::json* find(const nlohmann::json& root, std::string_view path) {
  const nlohmann::json* at = &root;
  while (true) {
    const size_t dot = path.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(path.substr(0, dot));
    if (found == at->end()) return nullptr;
    at = &*found;
    if (dot == path.npos) return at;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

struct ModelConfig::Json {
  nlohmann::json root;
};

ModelConfig::ModelConfig() = default;

ModelConfig ModelConfig::parse(std::string_view json, std::string_view file) {
  return of({internal::parse_json_object(without_non_finite(json), file, ErrorCode::format)});
}

ModelConfig ModelConfig::of(Json json) {
  ModelConfig config;
  config.present_ = true;
  config.model_type_ = text_or_empty(json.root, "model_type");
  config.architectures_ = texts_or_empty(json.root, "architectures");
  config.json_ = std::make_shared<const Json>(std::move(json));
  return config;
}

std::optional<int64_t> ModelConfig::at(std::string_view path, std::string_view subconfig) const {
  if (!present_) return std::nullopt;
  const nlohmann::json& root = json_->root;
  const nlohmann::json* object = subconfig.empty() ? &root : find(root, subconfig);
  if (object == nullptr && !root.contains("text_config")) object = &root;
  const nlohmann::json* found = object == nullptr ? nullptr : find(*object, path);
  const bool is_plain_key = subconfig.empty() && path.find('.') == path.npos;
  if (found == nullptr && is_plain_key) return at(path, "text_config");
  return found == nullptr ? std::nullopt : internal::to_integer(*found);
}

bool ModelConfig::has(std::string_view path) const {
  return present_ && find(json_->root, path) != nullptr;
}

bool ModelConfig::is_null(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  return found != nullptr && found->is_null();
}

std::optional<std::string> ModelConfig::text_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<bool> ModelConfig::flag_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

std::optional<std::vector<int64_t>> ModelConfig::integers_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_array()) return std::nullopt;
  std::vector<int64_t> integers;
  for (const auto& item : *found) {
    const auto integer = internal::to_integer(item);
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

std::optional<double> ModelConfig::number_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<std::vector<std::string>> ModelConfig::texts_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& item : *found) {
    if (!item.is_string()) return std::nullopt;
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::optional<ModelConfig> ModelConfig::object_at(std::string_view path) const {
  const nlohmann::json* found = present_ ? find(json_->root, path) : nullptr;
  if (found == nullptr || !found->is_object()) return std::nullopt;
  return of({*found});
}

std::vector<std::string> ModelConfig::keys() const {
  std::vector<std::string> keys;
  if (!present_) return keys;
  for (const auto& item : json_->root.items()) keys.push_back(item.key());
  return keys;
}

std::optional<ModelConfig> ModelConfig::member(const std::string& key) const {
  if (!present_) return std::nullopt;
  const auto found = json_->root.find(key);
  if (found == json_->root.end() || !found->is_object()) return std::nullopt;
  return of({*found});
}

std::string ModelConfig::to_json() const {
  return present_ ? json_->root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                  : "{}";
}

bool operator==(const ModelConfig& a, const ModelConfig& b) {
  if (!a.present_ || !b.present_) return a.present_ == b.present_;
  return a.json_->root == b.json_->root;
}

}  // namespace weightloom
