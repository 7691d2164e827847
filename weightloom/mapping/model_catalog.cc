#include "weightloom/mapping/model_catalog.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <simdjson.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/embedded_mappings_internal.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {
namespace {

using internal::StrictObject;
using nlohmann::json;

constexpr std::string_view kFormat = "weightloom.models/1";
constexpr std::string_view kFileName = "models.json";

std::string text_or(const StrictObject& object, const std::string& key, std::string otherwise) {
  return object.has(key) ? object.text(key) : std::move(otherwise);
}

std::vector<std::string> texts_or_none(const StrictObject& object, const std::string& key) {
  return object.has(key) ? object.texts(key) : std::vector<std::string>();
}

Submodel read_submodel(const json& value, const std::string& where) {
  const StrictObject object(value, where, ErrorCode::format,
                            {"path", "class", "auto", "config", "model_type"});
  Submodel submodel{object.text("path"), text_or(object, "class", ""), text_or(object, "auto", ""),
                    text_or(object, "config", ""), text_or(object, "model_type", "")};
  if (submodel.class_name.empty() == submodel.auto_class.empty()) {
    object.refuse("needs one of 'class' and 'auto'");
  }
  return submodel;
}

std::vector<std::pair<std::string, std::string>> read_tied(const StrictObject& object) {
  std::vector<std::pair<std::string, std::string>> tied;
  if (!object.has("tied")) return tied;
  for (const auto& [target, source] : object.at("tied").items()) {
    if (!source.is_string()) object.refuse("'tied' must map names to names");
    tied.emplace_back(target, source.get<std::string>());
  }
  return tied;
}

ModelClass read_class(const std::string& name, std::string_view text, const std::string& file) {
  const std::string where = fmt::format("{}: {}", file, name);
  const json value = internal::parse_json_object(text, where, ErrorCode::format);
  const StrictObject object(
      value, where, ErrorCode::format,
      {"model_type", "base_model_prefix", "submodels", "tied", "tie_word_embeddings",
       "keep_in_fp32", "lacks", "keep_in_fp32_strict", "ignore_on_load_missing",
       "ignore_on_load_unexpected", "ignore_on_save", "names", "buffers", "tree"});
  ModelClass result;
  result.name = name;
  result.model_type = text_or(object, "model_type", "");
  result.base_model_prefix = text_or(object, "base_model_prefix", "");
  if (object.has("submodels")) {
    for (const json& item : object.list("submodels")) {
      result.submodels.push_back(read_submodel(item, where + ": submodels"));
    }
  }
  result.tied = read_tied(object);
  result.tie_word_embeddings = object.flag("tie_word_embeddings", false);
  result.keep_in_fp32 = texts_or_none(object, "keep_in_fp32");
  result.keep_in_fp32_strict = texts_or_none(object, "keep_in_fp32_strict");
  result.ignore_on_load_missing = texts_or_none(object, "ignore_on_load_missing");
  result.ignore_on_load_unexpected = texts_or_none(object, "ignore_on_load_unexpected");
  result.ignore_on_save = texts_or_none(object, "ignore_on_save");
  result.names = texts_or_none(object, "names");
  result.buffers = texts_or_none(object, "buffers");
  result.tree_known = object.flag("tree", true);
  return result;
}

}  // namespace

/// The file's text, parsed when it is first asked for; classes are read one by one.
struct ModelCatalog::State {
  std::string file;
  std::string text;
  std::once_flag parsed;
  simdjson::dom::parser parser;
  simdjson::dom::object autos;
  simdjson::dom::object classes;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const ModelClass>, std::less<>> read;

  State(std::string name, std::string json) : file(std::move(name)), text(std::move(json)) {}

  void parse_once() {
    std::call_once(parsed, [this] {
      try {
        parse();
      } catch (const simdjson::simdjson_error& error) {
        throw Error(ErrorCode::format, fmt::format("{}: {}", file, error.what()));
      }
    });
  }

 private:
  void parse() {
    const simdjson::dom::object root = parser.parse(text);
    check_format(root["format"]);
    autos = root["auto"];
    classes = root["classes"];
  }

  void check_format(std::string_view format) const {
    if (format == kFormat) return;
    throw Error(ErrorCode::format,
                fmt::format("{}: format is '{}', but needs to be '{}'", file, format, kFormat));
  }
};

ModelCatalog ModelCatalog::built_in() {
  for (const auto& file : embedded_mappings()) {
    if (file.file != kFileName) continue;
    ModelCatalog catalog;
    catalog.state_ = std::make_shared<State>(std::string(file.file), std::string(file.text));
    return catalog;
  }
  return {};
}

ModelCatalog ModelCatalog::parse(std::string json, std::string file) {
  ModelCatalog catalog;
  catalog.state_ = std::make_shared<State>(std::move(file), std::move(json));
  catalog.state_->parse_once();
  return catalog;
}

std::shared_ptr<const ModelClass> ModelCatalog::find(std::string_view class_name) const {
  if (!state_) return nullptr;
  state_->parse_once();
  const std::lock_guard lock(state_->mutex);
  const auto read = state_->read.find(class_name);
  if (read != state_->read.end()) return read->second;
  simdjson::dom::element found;
  if (state_->classes.at_key(class_name).get(found) != simdjson::SUCCESS) return nullptr;
  const std::string name(class_name);
  auto model =
      std::make_shared<const ModelClass>(read_class(name, simdjson::minify(found), state_->file));
  state_->read.emplace(name, model);
  return model;
}

std::optional<std::string> ModelCatalog::class_for(std::string_view auto_class,
                                                   std::string_view model_type) const {
  if (!state_) return std::nullopt;
  state_->parse_once();
  std::string_view name;
  if (state_->autos[auto_class][model_type].get(name) != simdjson::SUCCESS) return std::nullopt;
  return std::string(name);
}

std::vector<std::string> ModelCatalog::class_names() const {
  std::vector<std::string> names;
  if (!state_) return names;
  state_->parse_once();
  for (const auto [name, model] : state_->classes) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> ModelCatalog::model_types() const {
  std::vector<std::string> types;
  if (!state_) return types;
  state_->parse_once();
  simdjson::dom::object classes;
  if (state_->autos["AutoModel"].get(classes) != simdjson::SUCCESS) return types;
  for (const auto [type, name] : classes) types.emplace_back(type);
  std::ranges::sort(types);
  return types;
}

}  // namespace weightloom
