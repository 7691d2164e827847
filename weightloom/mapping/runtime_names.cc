#include "weightloom/mapping/runtime_names.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

namespace weightloom {
namespace {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};

using TextSet = std::unordered_set<std::string, TextHash, std::equal_to<>>;

bool is_number(std::string_view component) {
  return !component.empty() &&
         std::ranges::all_of(component, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::string_view kBias = ".bias";
constexpr std::string_view kWeight = ".weight";

}  // namespace

struct RuntimeNames::Known {
  TextSet names;
  bool are_templates = false;

  bool has(std::string_view name) const {
    if (!are_templates) return names.contains(name);
    const std::string text = template_of(name);
    if (names.contains(text)) return true;
    if (!text.ends_with(kBias)) return false;
    return names.contains(text.substr(0, text.size() - kBias.size()) + std::string(kWeight));
  }
};

std::string template_of(std::string_view name) {
  std::string result;
  result.reserve(name.size());
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (begin > 0) result += '.';
    result += is_number(component) ? "*" : component;
    begin = end + 1;
  }
  return result;
}

std::string PrefixEdit::applied_to(std::string_view name) const {
  std::string edited(add);
  return edited.append(name.substr(strip_bytes));
}

RuntimeNames RuntimeNames::exactly(std::vector<std::string> names, std::string base_model_prefix) {
  RuntimeNames result;
  result.prefix_ = std::move(base_model_prefix);
  result.prefix_with_dot_ = result.prefix_ + ".";
  auto known = std::make_shared<Known>();
  known->names.reserve(names.size());
  for (std::string& name : names) known->names.insert(std::move(name));
  result.known_ = std::move(known);
  return result;
}

RuntimeNames RuntimeNames::like(std::vector<std::string> templates, std::string base_model_prefix) {
  RuntimeNames result = exactly(std::move(templates), std::move(base_model_prefix));
  auto known = std::make_shared<Known>(*result.known_);
  known->are_templates = true;
  result.known_ = std::move(known);
  return result;
}

bool RuntimeNames::exact() const noexcept { return known() && !known_->are_templates; }

bool RuntimeNames::has(std::string_view name) const { return known() && known_->has(name); }

PrefixEdit RuntimeNames::prefix_edit(std::string_view name) const {
  if (!known() || prefix_.empty()) return {};
  if (name.starts_with(prefix_with_dot_) && has(name.substr(prefix_with_dot_.size()))) {
    return {prefix_with_dot_.size(), {}};
  }
  if (has(prefix_with_dot_ + std::string(name))) return {0, prefix_with_dot_};
  return {};
}

}  // namespace weightloom
