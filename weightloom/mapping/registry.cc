#include "weightloom/mapping/registry.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/embedded_mappings_internal.h"
#include "weightloom/mapping/model_tree.h"
#include "weightloom/mapping/spelling.h"

namespace weightloom {

/// A mapping that is there, or the text of one that is parsed when it is first asked for.
class Registry::Entry {
 public:
  explicit Entry(Mapping mapping) : name_(mapping.name()), mapping_(std::move(mapping)) {}
  Entry(std::string_view name, std::string_view file, std::string_view text)
      : name_(name), file_(file), text_(text) {}

  const std::string& name() const noexcept { return name_; }

  const Mapping& mapping() const {
    std::call_once(once_, [this] {
      if (!mapping_) mapping_ = Mapping::parse(text_, file_);
    });
    return *mapping_;
  }

 private:
  std::string name_;
  std::string_view file_;
  std::string_view text_;
  mutable std::once_flag once_;
  mutable std::optional<Mapping> mapping_;
};

Registry Registry::read_shipped() {
  Registry registry;
  registry.models_ = ModelCatalog::built_in();
  for (const auto& file : embedded_mappings()) {
    if (file.mapping.empty()) continue;
    const auto entry = std::make_shared<const Entry>(file.mapping, file.file, file.text);
    registry.mappings_.emplace(file.mapping, entry);
    for (size_t at = 0; at < file.aliases.size();) {
      const size_t end = file.aliases.find(' ', at);
      registry.mappings_.emplace(file.aliases.substr(at, end - at), entry);
      at = end + 1;
    }
  }
  return registry;
}

Registry Registry::built_in() {
  static const Registry shipped = read_shipped();
  return shipped;
}

const Mapping* Registry::find(std::string_view name) const {
  const auto found = mappings_.find(name);
  return found == mappings_.end() ? nullptr : &found->second->mapping();
}

const Mapping* Registry::find_for(std::string_view architecture,
                                  std::string_view model_type) const {
  const Mapping* of_class = architecture.empty() ? nullptr : find(architecture);
  return of_class != nullptr ? of_class : find(model_type);
}

const Mapping* Registry::find_registered(std::string_view architecture,
                                         std::string_view model_type) const {
  for (const std::string_view name : {architecture, model_type}) {
    if (is_user_registered(name)) return find(name);
  }
  return nullptr;
}

std::span<const WeightTransform> Registry::legacy() const {
  const Mapping* legacy = find("legacy");
  return legacy == nullptr ? std::span<const WeightTransform>() : legacy->transforms();
}

bool Registry::is_plain(std::string_view model_type) const {
  const auto base = models_.class_for("AutoModel", model_type);
  return base && mapping_of(model_tree(models_, *base, ModelConfig()), *this).mapping.empty();
}

int64_t Registry::plain_count() const {
  return std::ranges::count_if(models_.model_types(),
                               [this](const std::string& type) { return is_plain(type); });
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : mappings_) {
    if (entry->name() == name) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Registry::similar(std::string_view name, int most) const {
  std::vector<std::string> known;
  for (const auto& [each, entry] : mappings_) known.push_back(each);
  return closest(name, known, most);
}

void Registry::add(Mapping mapping, bool overwrite) {
  std::vector<std::string> names = mapping.aliases();
  names.push_back(mapping.name());
  for (const auto& name : names) {
    const auto taken = mappings_.find(name);
    if (overwrite || taken == mappings_.end()) continue;
    throw Error(ErrorCode::mapping,
                fmt::format("mapping '{}': the name '{}' is taken by mapping '{}'", mapping.name(),
                            name, taken->second->name()),
                "give it another name, or overwrite");
  }
  const auto entry = std::make_shared<const Entry>(std::move(mapping));
  for (auto& name : names) {
    mappings_.insert_or_assign(name, entry);
    user_registered_.insert(std::move(name));
  }
}

void Registry::add_quantiser(std::string quant_method, Quantiser quantiser, bool overwrite) {
  if (quant_method.empty()) {
    throw Error(ErrorCode::usage, "a quantiser without a name",
                "give the quant_method that config.json names it by");
  }
  if (!overwrite && quantisers_.contains(quant_method)) {
    throw Error(ErrorCode::mapping,
                fmt::format("there is a quantiser for quant_method '{}'", quant_method),
                "give it another name, or overwrite");
  }
  quantisers_.insert_or_assign(std::move(quant_method), std::move(quantiser));
}

const Quantiser* Registry::find_quantiser(std::string_view quant_method) const {
  const auto found = quantisers_.find(quant_method);
  return found == quantisers_.end() ? nullptr : &found->second;
}

}  // namespace weightloom
