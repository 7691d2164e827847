#include "weightloom/mapping/transform.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace weightloom {
namespace {

using Patterns = std::vector<std::string>;

/// Text as a pattern that matches just it.
std::string escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\.^$|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

TransformForm form(const WeightRenaming& t) {
  return {t.source_patterns, t.target_patterns, t.scope, t.required};
}

TransformForm form(const PrefixChange& t) {
  const std::string head = t.model_prefix.empty() ? "" : escaped(t.model_prefix) + "\\.";
  const bool adds = !t.prefix_to_add.empty();
  const std::string prefix = escaped(adds ? t.prefix_to_add : t.prefix_to_remove) + "\\.";
  const Patterns sources{adds ? fmt::format("^{}(?!{})(.+)", head, prefix)
                              : fmt::format("^{}{}(.+)", head, prefix)};
  const Patterns targets{adds ? fmt::format("{}{}\\1", head, prefix) : head + "\\1"};
  return {sources, targets, t.scope, t.required};
}

TransformForm form(const GroupWeightRename& t) {
  TransformForm form{t.source_patterns, t.target_patterns, t.scope, t.required};
  form.guarded = true;
  return form;
}

TransformForm form(const IndexOffsetWeightRename& t) {
  TransformForm form{{t.source_pattern}, {t.target_pattern}, t.scope, t.required};
  form.index_offset = t.offset;
  return form;
}

TransformForm form(const WeightConverter& t) {
  TransformForm form{t.source_patterns, t.target_patterns, t.scope, t.required};
  form.converts = true;
  return form;
}

WeightTransform reverse(const WeightRenaming& t) {
  return WeightRenaming{t.target_patterns, t.source_patterns, t.required, t.scope};
}

WeightTransform reverse(const PrefixChange& t) {
  return PrefixChange{t.prefix_to_remove, t.prefix_to_add, t.model_prefix, t.required, t.scope};
}

/// The pairs from the last on: so the guard of the way back is the last target.
WeightTransform reverse(const GroupWeightRename& t) {
  return GroupWeightRename{{t.target_patterns.rbegin(), t.target_patterns.rend()},
                           {t.source_patterns.rbegin(), t.source_patterns.rend()},
                           t.required,
                           t.scope};
}

WeightTransform reverse(const IndexOffsetWeightRename& t) {
  return IndexOffsetWeightRename{t.target_pattern, t.source_pattern, -t.offset, t.required,
                                 t.scope};
}

WeightTransform reverse(const WeightConverter& t) {
  WeightConverter reversed{t.target_patterns, t.source_patterns, {}, t.required, t.scope};
  for (auto op = t.operations.rbegin(); op != t.operations.rend(); ++op) {
    reversed.operations.push_back((*op)->reverse());
  }
  return reversed;
}

std::string_view name(const WeightRenaming&) { return "WeightRenaming"; }
std::string_view name(const PrefixChange&) { return "PrefixChange"; }
std::string_view name(const GroupWeightRename&) { return "GroupWeightRename"; }
std::string_view name(const IndexOffsetWeightRename&) { return "IndexOffsetWeightRename"; }
std::string_view name(const WeightConverter&) { return "WeightConverter"; }

}  // namespace

TransformForm form_of(const WeightTransform& transform) {
  return std::visit([](const auto& t) { return form(t); }, transform);
}

std::string_view type_name(const WeightTransform& transform) {
  return std::visit([](const auto& t) { return name(t); }, transform);
}

WeightTransform reversed(const WeightTransform& transform) {
  return std::visit([](const auto& t) { return reverse(t); }, transform);
}

WeightTransform with_scope(WeightTransform transform, Scope scope) {
  std::visit([&](auto& t) { t.scope = std::move(scope); }, transform);
  return transform;
}

}  // namespace weightloom
