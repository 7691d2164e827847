#include "weightloom/mapping/side_evidence.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/renaming_chain_internal.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {
namespace {

/// False for a renaming that puts text on any name: what it acts on says nothing.
bool recognizes(const WeightTransform& transform) {
  const auto* change = std::get_if<PrefixChange>(&transform);
  if (change != nullptr) return change->prefix_to_add.empty();
  if (std::holds_alternative<WeightConverter>(transform)) return true;
  TransformMatcher matcher(transform, Pattern::Use::search);
  const auto scope = form_of(transform).scope;
  const bool is_below = scope && !scope->prefix.empty();
  const std::string name = is_below ? scope->prefix + ".x" : "x";
  const auto match = matcher.match(name);
  return !match || match->at.begin() != match->at.end();
}

Mapping recognizing(const Mapping& mapping) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < mapping.transforms().size(); ++i) {
    if (recognizes(mapping.transforms()[i])) places.push_back(static_cast<int64_t>(i));
  }
  return mapping.with_only(places);
}

/// True if a transform of the mapping acts on one of the names. What a renaming leaves of a name
/// needs no look: then the renaming has acted.
bool any_acts(const Mapping& mapping, std::span<const std::string_view> names) {
  RenamingChain renamings(mapping);
  renamings.decide_guards(names.size(), [&](size_t i) { return names[i]; });
  std::vector<TransformMatcher> converters;
  for (const auto& transform : mapping.transforms()) {
    if (!std::holds_alternative<WeightConverter>(transform)) continue;
    converters.emplace_back(transform, Pattern::Use::search);
  }
  return std::ranges::any_of(names, [&](std::string_view name) {
    return std::ranges::any_of(converters, [&](auto& matcher) { return matcher.matches(name); }) ||
           renamings.rename(std::string(name)).last;
  });
}

}  // namespace

SideEvidence side_evidence(const Mapping& mapping, std::span<const std::string_view> names) {
  SideEvidence evidence;
  evidence.hub = any_acts(recognizing(mapping), names);
  try {
    const Mapping back = mapping.without_one_way_renamings().reversed();
    evidence.runtime = any_acts(recognizing(back), names);
  } catch (const Error&) {
    // A mapping without a way back leaves no names to know the runtime side by.
  }
  return evidence;
}

}  // namespace weightloom
