#include "weightloom/mapping/transform_matcher.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

// Room for what most targets are longer than their sources.
constexpr size_t kUsualGrowth = 16;

const std::vector<std::string>& source_patterns(const WeightTransform& transform) {
  return std::visit([](const auto& t) -> const auto& { return t.source_patterns; }, transform);
}

const std::vector<std::string>& target_patterns(const WeightTransform& transform) {
  return std::visit([](const auto& t) -> const auto& { return t.target_patterns; }, transform);
}

/// Runs `action`; what it refuses is said of `pattern`.
template <typename Action>
auto naming(std::string_view role, const std::string& pattern, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} pattern '{}': {}", role, pattern, error.what()));
  }
}

std::optional<TargetSyntax> parse_as_text(const std::string& pattern) {
  try {
    return parse_target(pattern);
  } catch (const Error&) {
    return std::nullopt;
  }
}

using Groups = std::set<int>;

Groups referenced_groups(const TargetSyntax& target) {
  Groups groups;
  for (const auto& piece : target.pieces) {
    if (piece.kind == TargetPiece::Kind::group) groups.insert(piece.number);
  }
  return groups;
}

bool has_group(const std::vector<int>& groups, int number) {
  const auto at = static_cast<size_t>(number) - 1;
  return at < groups.size() && groups[at] != 0;
}

void require_groups(const Groups& referenced, const std::vector<int>& groups) {
  for (const int number : referenced) {
    if (has_group(groups, number)) continue;
    throw Error(
        ErrorCode::mapping,
        fmt::format("a target takes \\{} from a source pattern that has no such group", number));
  }
}

}  // namespace

std::string RenderedName::at_index(int64_t index) const {
  std::string name = text;
  return name.insert(star, std::to_string(index));
}

std::string RenderedName::shown() const {
  if (!enumerates()) return text;
  std::string name = text;
  return name.insert(star, 1, '*');
}

TransformMatcher::TransformMatcher(const WeightTransform& transform, Pattern::Use use) {
  const auto& sources = source_patterns(transform);
  const auto& targets = target_patterns(transform);
  for (const auto& pattern : targets) {
    targets_.push_back(naming("target", pattern, [&] { return parse_target(pattern); }));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    // Anchors are the pair's own; groups may stand in the first target for all sources.
    TargetSyntax paired = sources.size() == targets.size() ? targets_[i] : TargetSyntax{};
    paired.groups = targets_[sources.size() == targets.size() ? i : 0].groups;
    auto syntax = naming("source", sources[i], [&] { return parse_source(sources[i], paired); });
    Pattern pattern(syntax, sources[i], use);
    sources_.push_back({std::move(syntax), std::move(pattern), parse_as_text(sources[i])});
  }
  order_.resize(sources_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::sort(order_, [&](size_t a, size_t b) {
    return sources[a].size() != sources[b].size() ? sources[a].size() > sources[b].size() : a < b;
  });
  const bool is_renaming = std::holds_alternative<WeightRenaming>(transform);
  check_stars(is_renaming);
  check_groups(is_renaming);
}

void TransformMatcher::check_stars(bool is_renaming) {
  auto fewest = sources_.front().syntax.stars.size();
  size_t most = 0;
  for (const auto& source : sources_) {
    fewest = std::min(fewest, source.syntax.stars.size());
    most = std::max(most, source.syntax.stars.size());
  }
  for (const auto& target : targets_) {
    fewest = std::min(fewest, static_cast<size_t>(target.stars));
    most = std::max(most, static_cast<size_t>(target.stars));
  }
  if (most > fewest + 1) {
    throw Error(ErrorCode::mapping,
                fmt::format("its patterns have from {} to {} '*.': at most one may have no partner",
                            fewest, most));
  }
  carried_ = static_cast<int>(fewest);
  const auto enumerating = std::find_if(targets_.begin(), targets_.end(),
                                        [&](const auto& t) { return t.stars > carried_; });
  if (is_renaming && enumerating != targets_.end()) {
    throw Error(ErrorCode::mapping, "a renaming has no list to enumerate with '*.' in its target");
  }
}

void TransformMatcher::check_groups(bool is_renaming) const {
  const bool paired = is_renaming && targets() == sources();
  for (size_t t = 0; t < targets_.size(); ++t) {
    const auto referenced = referenced_groups(targets_[t]);
    // The targets of a converter are named after one match, so they must depend on it alike.
    if (!is_renaming && referenced != referenced_groups(targets_.front())) {
      throw Error(ErrorCode::mapping, "its target patterns name different groups");
    }
    for (size_t s = 0; s < sources_.size(); ++s) {
      if (!paired || s == t) require_groups(referenced, sources_[s].syntax.groups);
    }
  }
}

bool TransformMatcher::matches(std::string_view name) {
  return std::ranges::any_of(
      sources_, [name](Source& source) { return source.pattern.search(name).has_value(); });
}

std::optional<TransformMatch> TransformMatcher::match(std::string_view name) {
  std::optional<TransformMatch> best;
  for (const size_t source : order_) {
    const auto found = sources_[source].pattern.search(name);
    if (found && (!best || found->begin() < best->at.begin())) {
      best = TransformMatch{static_cast<int>(source), *found};
    }
  }
  return best;
}

RenderedName TransformMatcher::filled(const std::vector<TargetPiece>& pieces,
                                      const TransformMatch& match, std::string_view name) const {
  const auto& syntax = sources_[static_cast<size_t>(match.source)].syntax;
  RenderedName rendered;
  std::string& text = rendered.text;
  text.reserve(name.size() + kUsualGrowth);
  text += name.substr(0, match.at.begin());
  for (const auto& piece : pieces) {
    const auto number = static_cast<size_t>(piece.number);
    switch (piece.kind) {
      case TargetPiece::Kind::text:
        text += piece.text;
        break;
      case TargetPiece::Kind::group:
        text += match.at.group(syntax.groups[number - 1], name);
        break;
      case TargetPiece::Kind::star:
        if (piece.number < carried_) {
          text += match.at.group(syntax.stars[number], name);
        } else {
          rendered.star = text.size();
        }
        break;
    }
  }
  text += name.substr(match.at.end());
  return rendered;
}

RenderedName TransformMatcher::render(const TransformMatch& match, std::string_view name,
                                      int target) const {
  return filled(targets_[static_cast<size_t>(target)].pieces, match, name);
}

std::optional<std::string> TransformMatcher::rename(std::string_view name) {
  const auto found = match(name);
  if (!found) return std::nullopt;
  return render(*found, name, targets() == sources() ? found->source : 0).text;
}

std::optional<std::string_view> TransformMatcher::collected(const TransformMatch& match,
                                                            std::string_view name) const {
  if (!collects(match.source)) return std::nullopt;
  const int group = sources_[static_cast<size_t>(match.source)].syntax.stars.back();
  return match.at.group(group, name);
}

std::optional<std::string> TransformMatcher::sibling(const TransformMatch& match,
                                                     std::string_view name, int source,
                                                     int64_t index) const {
  const auto& text = sources_[static_cast<size_t>(source)].as_text;
  const auto& groups = sources_[static_cast<size_t>(match.source)].syntax.groups;
  if (!text) return std::nullopt;
  for (const int number : referenced_groups(*text)) {
    if (!has_group(groups, number)) return std::nullopt;
  }
  const RenderedName rendered = filled(text->pieces, match, name);
  return rendered.enumerates() ? rendered.at_index(index) : rendered.text;
}

bool TransformMatcher::collects(int source) const noexcept {
  return static_cast<int>(sources_[static_cast<size_t>(source)].syntax.stars.size()) > carried_;
}

bool TransformMatcher::enumerates(int target) const noexcept {
  return targets_[static_cast<size_t>(target)].stars > carried_;
}

}  // namespace weightloom
