#include "weightloom/mapping/mapping.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/transform_matcher.h"

namespace weightloom {
namespace {

using Patterns = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::mapping, why); }

void check_list(std::string_view side, const Patterns& patterns) {
  if (patterns.empty()) refuse(fmt::format("it has no {} patterns", side));
  std::set<std::string_view> seen;
  for (const auto& pattern : patterns) {
    if (pattern.empty()) refuse(fmt::format("a {} pattern is empty", side));
    if (!seen.insert(pattern).second) {
      refuse(fmt::format("{} pattern '{}' stands there twice", side, pattern));
    }
  }
}

void check(const WeightRenaming& renaming) {
  check_list("source", renaming.source_patterns);
  const auto sources = renaming.source_patterns.size();
  const auto targets = renaming.target_patterns.size();
  if (targets == 1) return check_list("target", renaming.target_patterns);
  if (targets != sources) {
    refuse(fmt::format("a renaming of {} source patterns has {} target patterns: it needs 1 or {}",
                       sources, targets, sources));
  }
}

void check(const WeightConverter& converter) {
  check_list("source", converter.source_patterns);
  check_list("target", converter.target_patterns);
  for (const auto& operation : converter.operations) {
    if (operation == nullptr) refuse("an operation is null");
  }
}

std::string_view type_name(const WeightTransform& transform) {
  return std::holds_alternative<WeightRenaming>(transform) ? "WeightRenaming" : "WeightConverter";
}

void check_transform(const WeightTransform& transform) {
  std::visit([](const auto& t) { check(t); }, transform);
  const TransformMatcher compiles(transform, Pattern::Use::check);
}

WeightTransform reversed_transform(const WeightTransform& transform) {
  if (const auto* renaming = std::get_if<WeightRenaming>(&transform)) {
    return WeightRenaming{renaming->target_patterns, renaming->source_patterns, renaming->required};
  }
  const auto& converter = std::get<WeightConverter>(transform);
  WeightConverter reversed{
      converter.target_patterns, converter.source_patterns, {}, converter.required};
  for (auto op = converter.operations.rbegin(); op != converter.operations.rend(); ++op) {
    reversed.operations.push_back((*op)->reverse());
  }
  return reversed;
}

/// FNV-1a, 64 bits.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace

Mapping::Mapping(std::string name, std::vector<WeightTransform> transforms)
    : name_(std::move(name)), transforms_(std::move(transforms)) {
  for (size_t i = 0; i < transforms_.size(); ++i) {
    try {
      check_transform(transforms_[i]);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("mapping '{}': transforms[{}] ({}): {}", name_, i,
                                            type_name(transforms_[i]), error.what()));
    }
  }
}

Mapping Mapping::reversed() const {
  std::vector<WeightTransform> transforms;
  for (auto t = transforms_.rbegin(); t != transforms_.rend(); ++t) {
    transforms.push_back(reversed_transform(*t));
  }
  try {
    Mapping reversed(name_, std::move(transforms));
    reversed.aliases_ = aliases_;
    reversed.renames_first_ = !renames_first_;
    return reversed;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("read backwards, {}", error.what()));
  }
}

std::string Mapping::hash() const { return fmt::format("{:016x}", fnv1a(to_json())); }

}  // namespace weightloom
