#include "weightloom/mapping/registry.h"

#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/embedded_mappings_internal.h"
#include "weightloom/mapping/spelling.h"
#include "weightloom/mapping/strict_json_internal.h"

namespace weightloom {

Registry Registry::built_in() {
  Registry registry;
  registry.models_ = ModelCatalog::built_in();
  for (const auto& file : embedded_mappings()) {
    if (file.name == "models.json") continue;
    if (file.name == "plain.json") {
      registry.add_plain(file.text, file.name);
    } else {
      registry.add(Mapping::parse(file.text, file.name));
    }
  }
  for (const auto& [name, mapping] : registry.mappings_) registry.shipped_.insert(name);
  for (const auto& [name, mapping] : registry.aliases_) registry.shipped_.insert(name);
  return registry;
}

const Mapping* Registry::find(std::string_view name) const noexcept {
  const auto alias = aliases_.find(name);
  const auto found = mappings_.find(alias == aliases_.end() ? name : alias->second);
  return found == mappings_.end() ? nullptr : &found->second;
}

const Mapping* Registry::find_for(std::string_view architecture,
                                  std::string_view model_type) const noexcept {
  const Mapping* of_class = architecture.empty() ? nullptr : find(architecture);
  return of_class != nullptr ? of_class : find(model_type);
}

const Mapping* Registry::find_registered(std::string_view architecture,
                                         std::string_view model_type) const noexcept {
  for (const std::string_view name : {architecture, model_type}) {
    if (name.empty() || shipped_.contains(name)) continue;
    if (const Mapping* mapping = find(name)) return mapping;
  }
  return nullptr;
}

std::span<const WeightTransform> Registry::legacy() const noexcept {
  const Mapping* legacy = find("legacy");
  return legacy == nullptr ? std::span<const WeightTransform>() : legacy->transforms();
}

bool Registry::is_plain(std::string_view model_type) const noexcept {
  return plain_.contains(model_type);
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, mapping] : mappings_) names.push_back(name);
  return names;
}

std::vector<std::string> Registry::similar(std::string_view name, int most) const {
  std::vector<std::string> known = names();
  for (const auto& [alias, mapping] : aliases_) known.push_back(alias);
  return closest(name, known, most);
}

void Registry::add(Mapping mapping, bool overwrite) {
  std::vector<std::string> taken = mapping.aliases();
  taken.push_back(mapping.name());
  for (const auto& name : taken) {
    if (overwrite || find(name) == nullptr) continue;
    throw Error(ErrorCode::mapping,
                fmt::format("mapping '{}': the name '{}' is taken by mapping '{}'", mapping.name(),
                            name, find(name)->name()),
                "give it another name, or overwrite");
  }
  for (const auto& name : taken) {
    aliases_.erase(name);
    mappings_.erase(name);
    shipped_.erase(name);
  }
  std::erase_if(aliases_, [&](const auto& alias) { return !mappings_.contains(alias.second); });
  for (const auto& alias : mapping.aliases()) aliases_.emplace(alias, mapping.name());
  std::string name = mapping.name();
  mappings_.emplace(std::move(name), std::move(mapping));
}

void Registry::add_plain(std::string_view json, std::string_view file) {
  const auto root = internal::parse_json_object(json, file, ErrorCode::format);
  const internal::StrictObject object(root, std::string(file), ErrorCode::format,
                                      {"format", "model_types"});
  if (object.text("format") != "weightloom.plain/1") {
    object.refuse(
        fmt::format("format is '{}', but needs to be 'weightloom.plain/1'", object.text("format")));
  }
  for (auto& model_type : object.texts("model_types")) plain_.insert(std::move(model_type));
}

}  // namespace weightloom
