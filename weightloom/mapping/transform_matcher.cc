#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/checked.h"
#include "weightloom/base/error.h"
#include "weightloom/mapping/name_index_internal.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {
namespace {

// Room for what most targets are longer than their sources.
constexpr size_t kUsualGrowth = 16;

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

std::string with_dot(const std::string& prefix) { return prefix.empty() ? "" : prefix + "."; }

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
  const TransformForm form = form_of(transform);
  const auto& sources = form.source_patterns;
  const auto& targets = form.target_patterns;
  index_offset_ = form.index_offset;
  is_scoped_ = form.scope.has_value();
  if (form.scope) scope_ = with_dot(form.scope->prefix);
  if (form.scope) base_model_scope_ = with_dot(form.scope->base_model_prefix);
  for (const auto& pattern : targets) {
    targets_.push_back(naming("target", pattern, [&] { return parse_target(pattern); }));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    // Anchors are the pair's own; groups may stand in the first target for all sources.
    TargetSyntax paired = sources.size() == targets.size() ? targets_[i] : TargetSyntax{};
    paired.groups = targets_[sources.size() == targets.size() ? i : 0].groups;
    auto syntax = naming("source", sources[i], [&] { return parse_source(sources[i], paired); });
    if (syntax.regex.empty()) {
      throw Error(ErrorCode::mapping, "a source pattern is empty, so it would match everywhere");
    }
    Pattern pattern(syntax, sources[i], use);
    sources_.push_back({std::move(syntax), std::move(pattern), parse_as_text(sources[i])});
  }
  order_.resize(sources_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::sort(order_, [&](size_t a, size_t b) {
    return sources[a].size() != sources[b].size() ? sources[a].size() > sources[b].size() : a < b;
  });
  check_stars(!form.converts);
  check_groups(!form.converts);
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

/// What of `name` patterns do not see; nothing if `name` is out of scope.
std::optional<size_t> TransformMatcher::scope_bytes_of(std::string_view name) const noexcept {
  if (!is_scoped_) return 0;
  const bool has_base = name.starts_with(base_model_scope_);
  const size_t base = has_base ? base_model_scope_.size() : 0;
  if (has_base && name.substr(base).starts_with(scope_)) return base + scope_.size();
  return name.starts_with(scope_) ? std::optional(scope_.size()) : std::nullopt;
}

bool TransformMatcher::matches(std::string_view name) { return match(name).has_value(); }

std::optional<TransformMatch> TransformMatcher::match(std::string_view name, size_t from) {
  const auto scope_bytes = scope_bytes_of(name);
  if (!scope_bytes) return std::nullopt;
  const std::string_view seen = name.substr(*scope_bytes);
  std::optional<TransformMatch> best;
  for (const size_t source : order_) {
    const auto found = sources_[source].pattern.search(seen, from);
    if (found && (!best || found->begin() < best->at.begin())) {
      best = TransformMatch{static_cast<int>(source), *found, *scope_bytes};
    }
  }
  return best;
}

RenderedName TransformMatcher::filled(const std::vector<TargetPiece>& pieces,
                                      const TransformMatch& match, std::string_view name) const {
  const auto& syntax = sources_[static_cast<size_t>(match.source)].syntax;
  const std::string_view seen = name.substr(match.scope_bytes);
  RenderedName rendered;
  std::string& text = rendered.text;
  text.reserve(name.size() + kUsualGrowth);
  text += name.substr(0, match.scope_bytes + match.at.begin());
  for (const auto& piece : pieces) {
    const auto number = static_cast<size_t>(piece.number);
    switch (piece.kind) {
      case TargetPiece::Kind::text:
        text += piece.text;
        break;
      case TargetPiece::Kind::group:
        text += match.at.group(syntax.groups[number - 1], seen);
        break;
      case TargetPiece::Kind::star:
        if (piece.number < carried_) {
          text += match.at.group(syntax.stars[number], seen);
        } else {
          rendered.star = text.size();
        }
        break;
    }
  }
  text += seen.substr(match.at.end());
  return rendered;
}

RenderedName TransformMatcher::render(const TransformMatch& match, std::string_view name,
                                      int target) const {
  return filled(targets_[static_cast<size_t>(target)].pieces, match, name);
}

/// The text of \\1 plus the offset; nothing if that is no index.
std::optional<std::string> TransformMatcher::shifted_index(const TransformMatch& match,
                                                           std::string_view name) const {
  const auto& groups = sources_[static_cast<size_t>(match.source)].syntax.groups;
  if (groups.empty()) return std::nullopt;
  const auto index = parse_index(match.at.group(groups.front(), name.substr(match.scope_bytes)));
  const auto shifted = index ? checked_add(*index, index_offset_) : std::nullopt;
  return shifted && *shifted >= 0 ? std::optional(std::to_string(*shifted)) : std::nullopt;
}

std::optional<std::string> TransformMatcher::renamed(const TransformMatch& match,
                                                     std::string_view name) const {
  const auto target = static_cast<size_t>(targets() == sources() ? match.source : 0);
  if (index_offset_ == 0) return filled(targets_[target].pieces, match, name).text;
  const auto index = shifted_index(match, name);
  if (!index) return std::nullopt;
  auto pieces = targets_[target].pieces;
  for (TargetPiece& piece : pieces) {
    if (piece.kind != TargetPiece::Kind::group || piece.number != 1) continue;
    piece = {TargetPiece::Kind::text, *index, 0};
  }
  return filled(pieces, match, name).text;
}

std::optional<std::string> TransformMatcher::rename(std::string_view name, size_t from) {
  const auto found = match(name, from);
  return found ? renamed(*found, name) : std::nullopt;
}

std::optional<std::string> TransformMatcher::undo(std::string_view name,
                                                  TransformMatcher& forward) {
  const size_t seen = name.size() - scope_bytes_of(name).value_or(name.size());
  for (size_t from = 0; from <= seen;) {
    const auto found = match(name, from);
    if (!found) return std::nullopt;
    from = found->at.begin() + 1;
    auto before = renamed(*found, name);
    if (before && forward.rename(*before) == name) return before;
  }
  return std::nullopt;
}

std::vector<std::string_view> TransformMatcher::groups(const TransformMatch& match,
                                                       std::string_view name) const {
  std::vector<std::string_view> texts;
  for (const int group : sources_[static_cast<size_t>(match.source)].syntax.groups) {
    texts.push_back(match.at.group(group, name.substr(match.scope_bytes)));
  }
  return texts;
}

std::optional<std::string_view> TransformMatcher::collected(const TransformMatch& match,
                                                            std::string_view name) const {
  if (!collects(match.source)) return std::nullopt;
  const int group = sources_[static_cast<size_t>(match.source)].syntax.stars.back();
  return match.at.group(group, name.substr(match.scope_bytes));
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
