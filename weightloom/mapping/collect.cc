#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/workers.h"
#include "weightloom/mapping/collect_internal.h"
#include "weightloom/mapping/name_index_internal.h"

namespace weightloom {
namespace {

// A part of fewer leaves would take less time than its patterns take to compile.
constexpr size_t kFewestLeavesInPart = 4096;

/// What a renamed name was before: where `sibling` (renamed from `sibling_before`) and `renamed`
/// agree around the renamed part, that part is put back.
std::string before_renames(std::string renamed, std::string_view sibling,
                           std::string_view sibling_before) {
  const auto [at, unused] = std::ranges::mismatch(sibling, sibling_before);
  const auto prefix = static_cast<size_t>(at - sibling.begin());
  const size_t most = std::min(sibling.size(), sibling_before.size()) - prefix;
  size_t suffix = 0;
  while (suffix < most && sibling[sibling.size() - 1 - suffix] ==
                              sibling_before[sibling_before.size() - 1 - suffix]) {
    ++suffix;
  }
  const auto head = sibling.substr(0, sibling.size() - suffix);
  if (renamed.starts_with(head)) {
    const auto head_before = sibling_before.substr(0, sibling_before.size() - suffix);
    return renamed.replace(0, head.size(), head_before);
  }
  const auto tail = sibling.substr(prefix);
  if (!renamed.ends_with(tail)) return renamed;
  return renamed.replace(renamed.size() - tail.size(), tail.size(), sibling_before.substr(prefix));
}

}  // namespace

Collector::Collector(const Mapping& mapping) : mapping_(mapping), renamings_(mapping) {
  const auto& transforms = mapping.transforms();
  matchers_.resize(transforms.size());
  for (size_t i = 0; i < transforms.size(); ++i) {
    if (!std::holds_alternative<WeightConverter>(transforms[i])) continue;
    matchers_[i].emplace(transforms[i], Pattern::Use::search);
    converters_.push_back(i);
  }
  group_tables_.resize(transforms.size());
  fired_.assign(transforms.size(), 0);
}

void Collector::add(size_t leaf, std::string_view name) {
  RenamingChain::Renamed renamed{std::string(name), std::nullopt};
  if (mapping_.renames_first()) renamed = rename(std::move(renamed.name), true);
  Destination& destination = destinations_.emplace_back();
  destination.touched = renamed.last.has_value();
  const auto claimed = claim(renamed.name);
  if (!claimed) {
    destination.name = std::move(renamed.name);
    return;
  }
  ++fired_[claimed->transform];
  destination.touched = true;
  destination.group = group_of(*claimed, renamed.name);
  put(groups_[*destination.group], *claimed, renamed.name, leaf, name);
}

void Collector::merge(Collector other) {
  std::vector<size_t> place_here;
  for (Group& group : other.groups_) place_here.push_back(merge_group(std::move(group)));
  destinations_.reserve(destinations_.size() + other.destinations_.size());
  for (Destination& destination : other.destinations_) {
    if (destination.group) destination.group = place_here[*destination.group];
    destinations_.push_back(std::move(destination));
  }
  std::ranges::move(other.findings_, std::back_inserter(findings_));
  for (size_t i = 0; i < fired_.size(); ++i) fired_[i] += other.fired_[i];
}

/// Joins the group here that has the same first target, or adds it.
size_t Collector::merge_group(Group group) {
  auto& by_target = group_tables_[group.transform].by_target;
  const auto [at, is_new] = by_target.try_emplace(group.targets.front().shown(), groups_.size());
  if (is_new) {
    groups_.push_back(std::move(group));
    return at->second;
  }
  Group& here = groups_[at->second];
  here.refused = here.refused || group.refused;
  for (size_t s = 0; s < here.sources.size(); ++s) {
    here.sources[s].insert(here.sources[s].end(), group.sources[s].begin(), group.sources[s].end());
  }
  return at->second;
}

RenamingChain::Renamed Collector::rename(std::string name, bool count) {
  if (!count) return renamings_.rename(std::move(name));
  return renamings_.rename(std::move(name), [this](size_t transform) { ++fired_[transform]; });
}

std::optional<std::string> Collector::would_make(std::string_view name) {
  std::string renamed(name);
  if (mapping_.renames_first()) renamed = rename(std::move(renamed), false).name;
  const auto claimed = claim(renamed);
  if (!claimed) return std::nullopt;
  return matchers_[claimed->transform]->render(claimed->match, renamed, 0).shown();
}

std::string Collector::absent_name(const Group& group, std::string_view leaf_name, size_t source,
                                   int64_t index) {
  std::string renamed(leaf_name);
  if (mapping_.renames_first()) renamed = rename(std::move(renamed), false).name;
  TransformMatcher& matcher = this->matcher(group.transform);
  std::optional<std::string> sibling;
  if (const auto match = matcher.match(renamed)) {
    sibling = matcher.sibling(*match, renamed, static_cast<int>(source), index);
  }
  if (!sibling) {
    const auto& converter = std::get<WeightConverter>(mapping_.transforms()[group.transform]);
    return fmt::format("{} (item {})", converter.source_patterns[source], index);
  }
  return before_renames(std::move(*sibling), renamed, leaf_name);
}

std::optional<Collector::Claim> Collector::claim(std::string_view name) {
  for (const size_t transform : converters_) {
    if (const auto match = matchers_[transform]->match(name)) return Claim{transform, *match};
  }
  return std::nullopt;
}

size_t Collector::group_of(const Claim& claim, std::string_view name) {
  RenderedName first = matchers_[claim.transform]->render(claim.match, name, 0);
  GroupTable& table = group_tables_[claim.transform];
  if (table.latest && groups_[*table.latest].targets.front() == first) return *table.latest;
  const auto [at, is_new] = table.by_target.try_emplace(first.shown(), groups_.size());
  table.latest = at->second;
  return is_new ? make_group(claim, name, std::move(first)) : at->second;
}

size_t Collector::make_group(const Claim& claim, std::string_view name, RenderedName first_target) {
  const TransformMatcher& matcher = *matchers_[claim.transform];
  Group group;
  group.transform = claim.transform;
  group.sources.resize(static_cast<size_t>(matcher.sources()));
  group.targets.push_back(std::move(first_target));
  for (int target = 1; target < matcher.targets(); ++target) {
    group.targets.push_back(matcher.render(claim.match, name, target));
  }
  groups_.push_back(std::move(group));
  return groups_.size() - 1;
}

void Collector::put(Group& group, const Claim& claim, std::string_view name, size_t leaf,
                    std::string_view leaf_name) {
  CollectedItem item{0, leaf};
  if (const auto text = matchers_[claim.transform]->collected(claim.match, name)) {
    const auto index = parse_index(*text);
    if (!index) {
      group.refused = true;
      findings_.push_back(
          {Severity::error, "bad_index", std::string(leaf_name), "",
           fmt::format("'{}' would go into '{}', but its place there, '{}', is no index (decimal "
                       "digits without a leading zero)",
                       leaf_name, group.targets.front().shown(), *text)});
      return;
    }
    item.index = *index;
  }
  group.sources[static_cast<size_t>(claim.match.source)].push_back(item);
}

Collector collect(const Mapping& mapping, size_t count, int threads,
                  const std::function<std::string_view(size_t leaf)>& name_of) {
  const size_t most_parts = static_cast<size_t>(std::max(threads, 1));
  const size_t parts = std::clamp<size_t>(count / kFewestLeavesInPart, 1, most_parts);
  std::vector<std::optional<Collector>> collectors(parts);
  collectors.front().emplace(mapping);
  if (mapping.renames_first()) collectors.front()->decide_guards(count, name_of);
  for_all_items(threads, parts, [&](size_t, size_t part) {
    if (part > 0) collectors[part].emplace(mapping).take_guards(*collectors.front());
    Collector& collector = *collectors[part];
    const size_t end = (part + 1) * count / parts;
    for (size_t leaf = part * count / parts; leaf < end; ++leaf) collector.add(leaf, name_of(leaf));
  });
  Collector all = std::move(*collectors.front());
  for (size_t part = 1; part < parts; ++part) all.merge(std::move(*collectors[part]));
  return all;
}

}  // namespace weightloom
