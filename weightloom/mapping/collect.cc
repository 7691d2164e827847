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

/// The target's name with the base model's prefix changed.
RenderedName edited(RenderedName name, const PrefixEdit& edit) {
  if (edit.empty()) return name;
  name.text = edit.applied_to(name.text);
  if (name.enumerates()) name.star += edit.add.size() - edit.strip_bytes;
  return name;
}

}  // namespace

Collector::Collector(const Mapping& mapping, const RuntimeNames& runtime)
    : mapping_(mapping), runtime_(runtime), renamings_(mapping) {
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
  Course course = course_of(name);
  const bool stays = leaves_the_model(course, name);
  if (stays) {
    course = {{std::string(name), std::nullopt}, {}, {}, {}, runtime_.prefix_edit(name)};
  }
  if (stays || !course.edit.empty()) ++edited_;
  for (const size_t transform : course.fired) ++fired_[transform];
  Destination& destination = destinations_.emplace_back();
  destination.touched = course.renamed.last.has_value() || !course.edit.empty();
  if (!course.claim) {
    destination.name = course.edit.empty() ? std::move(course.renamed.name)
                                           : course.edit.applied_to(course.renamed.name);
    return;
  }
  ++fired_[course.claim->transform];
  destination.touched = true;
  destination.group = group_of(course);
  put(groups_[*destination.group], *course.claim, course.renamed.name, leaf, name);
}

Collector::Course Collector::course_of(std::string_view name) {
  Course course;
  course.renamed.name = name;
  if (mapping_.renames_first()) {
    course.renamed = renamings_.rename(std::move(course.renamed.name), [&course](size_t transform) {
      course.fired.push_back(transform);
    });
  }
  course.claim = claim(course.renamed.name);
  if (course.claim) {
    course.first_target =
        matchers_[course.claim->transform]->render(course.claim->match, course.renamed.name, 0);
  }
  if (!runtime_.known() || !mapping_.renames_first()) return course;
  const RenderedName& first = course.first_target;
  course.edit = runtime_.prefix_edit(!course.claim        ? course.renamed.name
                                     : first.enumerates() ? first.at_index(0)
                                                          : first.text);
  return course;
}

/// True if what becomes of `name` is none of the model's names, and `name` is one.
bool Collector::leaves_the_model(const Course& course, std::string_view name) const {
  if (!runtime_.known() || !mapping_.renames_first()) return false;
  if (!course.claim && course.renamed.name == name) return false;
  const RenderedName& first = course.first_target;
  const std::string made = course.edit.applied_to(!course.claim        ? course.renamed.name
                                                  : first.enumerates() ? first.at_index(0)
                                                                       : first.text);
  return !runtime_.has(made) && runtime_.has(name);
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
  edited_ += other.edited_;
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

size_t Collector::group_of(const Course& course) {
  RenderedName first = edited(course.first_target, course.edit);
  GroupTable& table = group_tables_[course.claim->transform];
  if (table.latest && groups_[*table.latest].targets.front() == first) return *table.latest;
  const auto [at, is_new] = table.by_target.try_emplace(first.shown(), groups_.size());
  table.latest = at->second;
  return is_new ? make_group(course, std::move(first)) : at->second;
}

size_t Collector::make_group(const Course& course, RenderedName first_target) {
  const TransformMatcher& matcher = *matchers_[course.claim->transform];
  Group group;
  group.transform = course.claim->transform;
  group.prefix_edited = !course.edit.empty();
  group.sources.resize(static_cast<size_t>(matcher.sources()));
  group.targets.push_back(std::move(first_target));
  for (int target = 1; target < matcher.targets(); ++target) {
    group.targets.push_back(
        edited(matcher.render(course.claim->match, course.renamed.name, target), course.edit));
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

Collector collect(const Mapping& mapping, const RuntimeNames& runtime, size_t count, int threads,
                  const std::function<std::string_view(size_t leaf)>& name_of) {
  const size_t most_parts = static_cast<size_t>(std::max(threads, 1));
  const size_t parts = std::clamp<size_t>(count / kFewestLeavesInPart, 1, most_parts);
  std::vector<std::optional<Collector>> collectors(parts);
  collectors.front().emplace(mapping, runtime);
  if (mapping.renames_first()) collectors.front()->decide_guards(count, name_of);
  for_all_items(threads, parts, [&](size_t, size_t part) {
    if (part > 0) collectors[part].emplace(mapping, runtime).take_guards(*collectors.front());
    Collector& collector = *collectors[part];
    const size_t end = (part + 1) * count / parts;
    for (size_t leaf = part * count / parts; leaf < end; ++leaf) collector.add(leaf, name_of(leaf));
  });
  Collector all = std::move(*collectors.front());
  for (size_t part = 1; part < parts; ++part) all.merge(std::move(*collectors[part]));
  return all;
}

}  // namespace weightloom
