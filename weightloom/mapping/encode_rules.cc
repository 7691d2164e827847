#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/glob.h"
#include "weightloom/mapping/encode_rules_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kWeight = "weight";
constexpr std::string_view kRegex = "re:";
/// Components that hold one of these are no Linears.
constexpr std::string_view kParts[] = {"embed", "relative_attention_bias", "norm", "e_score"};
/// Components that are one of these are heads or routers.
constexpr std::string_view kWhole[] = {
    "lm_head", "head", "score", "classifier", "gate", "router", "shared_expert_gate"};

std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    parts.push_back(name.substr(0, dot));
    name.remove_prefix(dot + 1);
  }
  parts.push_back(name);
  return parts;
}

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_other_kind(std::string_view part) {
  return std::ranges::find(kWhole, part) != std::end(kWhole) ||
         std::ranges::any_of(kParts, [&](auto word) { return part.find(word) != part.npos; });
}

}  // namespace

bool is_linear(std::string_view name, const Shape& shape) {
  const auto parts = components(name);
  return shape.size() == 2 && parts.back() == kWeight && std::ranges::any_of(parts, is_number) &&
         std::ranges::none_of(parts, is_other_kind);
}

bool is_expert_stack(std::string_view name, const Shape& shape) {
  const auto parts = components(name);
  return shape.size() == 3 && std::ranges::find(parts, "experts") != parts.end() &&
         std::ranges::none_of(parts, is_other_kind);
}

ExcludedModules::Entry ExcludedModules::entry_of(const std::string& text) {
  constexpr std::string_view kSigns = "\\^$*+?()[]{}|";
  Entry entry{text};
  const bool is_regex = text.starts_with(kRegex);
  if (!is_regex && text.find_first_of(kSigns) == text.npos) return entry;
  const std::vector<std::string> pattern = {
      is_regex ? fmt::format("^(?:{})", text.substr(kRegex.size()))
               : fmt::format(R"(^(?:{})(?:(?<=\.)|(?=\.|$)))", text)};
  try {
    entry.pattern.emplace(pattern);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mapping) throw;
    entry.is_glob = true;
  }
  return entry;
}

ExcludedModules::ExcludedModules(std::span<const std::string> modules) {
  for (const std::string& module : modules) entries_.push_back(entry_of(module));
}

bool ExcludedModules::matches(Entry& entry, std::string_view module) {
  const std::string& text = entry.text;
  if (module.ends_with(text)) return true;
  if (entry.pattern) return entry.pattern->match(module);
  if (entry.is_glob) return glob_matches(text, std::string(module));
  return module.starts_with(text) && (text.ends_with('.') || module[text.size()] == '.');
}

bool ExcludedModules::match(std::string_view module) {
  return std::ranges::any_of(entries_, [&](Entry& entry) { return matches(entry, module); });
}

std::vector<std::string> ExcludedModules::without_those_of(
    std::span<const std::string_view> modules) {
  std::vector<std::string> left;
  for (Entry& entry : entries_) {
    const bool is_true =
        !entry.text.starts_with(kRegex) && !entry.is_glob &&
        std::ranges::none_of(modules, [&](auto module) { return matches(entry, module); });
    if (is_true) left.push_back(entry.text);
  }
  return left;
}

}  // namespace weightloom
