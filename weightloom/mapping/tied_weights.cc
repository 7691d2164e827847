#include "weightloom/mapping/tied_weights.h"

#include <algorithm>
#include <set>

#include "weightloom/mapping/name_patterns.h"

namespace weightloom {
namespace {

bool is_whole_name(const std::string& pattern) {
  const bool is_plain = std::ranges::all_of(pattern, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
  return is_plain && (pattern.ends_with("weight") || pattern.ends_with("bias"));
}

/// The names that begin with what the pattern matches, sorted.
std::vector<std::string> names_from(const std::string& pattern,
                                    std::span<const std::string> names) {
  const std::string anchored[] = {"^(?:" + pattern + ")"};
  NamePatterns patterns(anchored);
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (patterns.match(name)) found.push_back(name);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<TiedPair> expand_tied(std::span<const TiedPair> pairs,
                                  std::span<const std::string> names) {
  std::vector<TiedPair> expanded;
  for (const auto& [target, source] : pairs) {
    if (is_whole_name(target) && is_whole_name(source)) {
      expanded.emplace_back(target, source);
      continue;
    }
    const auto targets = names_from(target, names);
    const auto sources = names_from(source, names);
    if (sources.empty() || targets.size() % sources.size() != 0) continue;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == sources[i % sources.size()]) continue;
      expanded.emplace_back(targets[i], sources[i % sources.size()]);
    }
  }
  return expanded;
}

TiedOutcome resolve_tied(std::span<const TiedPair> pairs, std::span<const std::string> there,
                         std::span<const std::string> wanted) {
  const auto is_there = [&](const std::string& name) {
    return std::ranges::binary_search(there, name);
  };
  const auto is_wanted = [&](const std::string& name) {
    return wanted.empty() || std::ranges::binary_search(wanted, name);
  };
  TiedOutcome outcome;
  std::set<std::string> known;  // restored names
  // Of a name that both sides of its pair lack, another pair may tell.
  for (bool again = true; again;) {
    again = false;
    for (const auto& [target, source] : pairs) {
      for (const auto& [absent, other] : {TiedPair(target, source), TiedPair(source, target)}) {
        if (is_there(absent) || known.contains(absent) || !is_wanted(absent)) continue;
        std::string holder = other;
        if (!is_there(other)) {
          const auto found = std::ranges::find(outcome.restored, other, &TiedName::name);
          if (found == outcome.restored.end()) continue;
          holder = found->same_as;
        }
        outcome.restored.push_back({absent, holder});
        again = known.insert(absent).second;
      }
    }
  }
  for (const auto& [target, source] : pairs) {
    if (is_there(target) && is_there(source)) outcome.stored.push_back({target, source});
  }
  return outcome;
}

}  // namespace weightloom
