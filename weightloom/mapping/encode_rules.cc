#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/encode_rules_internal.h"
#include "weightloom/mapping/name_patterns.h"

namespace weightloom {
namespace {

constexpr std::string_view kWeight = "weight";
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

struct ExcludedModules::Compiled {
  std::vector<std::string> words;
  std::vector<NamePatterns> patterns;
};

ExcludedModules::ExcludedModules(std::span<const std::string> modules)
    : compiled_(std::make_shared<Compiled>()) {
  for (const std::string& module : modules) {
    compiled_->words.push_back(module);
    const std::vector<std::string> pattern = {
        fmt::format(R"(^(?:{})(?:(?<=\.)|(?=\.|$)))", module)};
    try {
      compiled_->patterns.emplace_back(pattern);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::mapping) throw;
    }
  }
}

bool ExcludedModules::match(std::string_view module) {
  const bool is_end = std::ranges::any_of(
      compiled_->words, [&](const std::string& word) { return module.ends_with(word); });
  return is_end || std::ranges::any_of(compiled_->patterns, [&](NamePatterns& pattern) {
           return pattern.match(module);
         });
}

}  // namespace weightloom
