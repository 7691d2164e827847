#include "weightloom/mapping/collect.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace weightloom {
namespace {

/// Decimal digits without leading zero that int32 holds; nothing for anything else.
std::optional<int64_t> parse_index(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  int32_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

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

Collector::Collector(const Mapping& mapping) : mapping_(mapping) {
  const auto& transforms = mapping.transforms();
  for (size_t i = 0; i < transforms.size(); ++i) {
    matchers_.emplace_back(transforms[i], Pattern::Use::search);
    const bool renames = std::holds_alternative<WeightRenaming>(transforms[i]);
    (renames ? renamings_ : converters_).push_back(i);
  }
  group_tables_.resize(transforms.size());
  fired_.assign(transforms.size(), 0);
}

void Collector::add(size_t leaf, std::string_view name) {
  Renamed renamed{std::string(name), std::nullopt};
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

Collector::Renamed Collector::rename(std::string name, bool count) {
  Renamed renamed{std::move(name), std::nullopt};
  for (const size_t transform : renamings_) {
    auto next = matchers_[transform].rename(renamed.name);
    if (!next) continue;
    if (count) ++fired_[transform];
    renamed.last = transform;
    renamed.name = std::move(*next);
  }
  return renamed;
}

std::optional<std::string> Collector::would_make(std::string_view name) {
  std::string renamed(name);
  if (mapping_.renames_first()) renamed = rename(std::move(renamed), false).name;
  const auto claimed = claim(renamed);
  if (!claimed) return std::nullopt;
  return matchers_[claimed->transform].render(claimed->match, renamed, 0).shown();
}

std::string Collector::absent_name(const Group& group, std::string_view leaf_name, size_t source,
                                   int64_t index) {
  std::string renamed(leaf_name);
  if (mapping_.renames_first()) renamed = rename(std::move(renamed), false).name;
  TransformMatcher& matcher = matchers_[group.transform];
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
    if (const auto match = matchers_[transform].match(name)) return Claim{transform, *match};
  }
  return std::nullopt;
}

size_t Collector::group_of(const Claim& claim, std::string_view name) {
  RenderedName first = matchers_[claim.transform].render(claim.match, name, 0);
  GroupTable& table = group_tables_[claim.transform];
  if (table.latest && groups_[*table.latest].targets.front() == first) return *table.latest;
  const auto [at, is_new] = table.by_target.try_emplace(first.shown(), groups_.size());
  table.latest = at->second;
  return is_new ? make_group(claim, name, std::move(first)) : at->second;
}

size_t Collector::make_group(const Claim& claim, std::string_view name, RenderedName first_target) {
  const TransformMatcher& matcher = matchers_[claim.transform];
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
  if (const auto text = matchers_[claim.transform].collected(claim.match, name)) {
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

}  // namespace weightloom
