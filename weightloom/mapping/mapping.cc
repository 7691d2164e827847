#include "weightloom/mapping/mapping.h"

#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/hash.h"
#include "weightloom/mapping/dtype_rules.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::mapping, why); }

void check_list(std::string_view side, const std::vector<std::string>& patterns,
                bool may_be_empty) {
  if (patterns.empty()) refuse(fmt::format("it has no {} patterns", side));
  std::set<std::string_view> seen;
  for (const auto& pattern : patterns) {
    if (pattern.empty() && !may_be_empty) refuse(fmt::format("a {} pattern is empty", side));
    if (!seen.insert(pattern).second) {
      refuse(fmt::format("{} pattern '{}' stands there twice", side, pattern));
    }
  }
}

void check(const WeightRenaming& renaming) {
  check_list("source", renaming.source_patterns, true);
  const auto sources = renaming.source_patterns.size();
  const auto targets = renaming.target_patterns.size();
  if (targets == 1 || targets == sources) return;
  refuse(fmt::format("a renaming of {} source patterns has {} target patterns: it needs 1 or {}",
                     sources, targets, sources));
}

void check(const PrefixChange& change) {
  if (change.prefix_to_add.empty() != change.prefix_to_remove.empty()) return;
  refuse("it needs one of 'prefix_to_add' and 'prefix_to_remove'");
}

void check(const GroupWeightRename& group) {
  check_list("source", group.source_patterns, false);
  check_list("target", group.target_patterns, false);
  if (group.source_patterns.size() == group.target_patterns.size()) return;
  refuse(fmt::format("a group of renames has {} source and {} target patterns: it needs pairs",
                     group.source_patterns.size(), group.target_patterns.size()));
}

void check(const IndexOffsetWeightRename& rename) {
  constexpr int64_t kMostOffset = std::numeric_limits<int32_t>::max();
  if (rename.source_pattern.empty()) refuse("its source pattern is empty");
  if (rename.offset < -kMostOffset || rename.offset > kMostOffset) {
    refuse(fmt::format("an offset of {} is no offset of indexes", rename.offset));
  }
}

void check(const WeightConverter& converter) {
  check_list("source", converter.source_patterns, false);
  check_list("target", converter.target_patterns, false);
  for (const auto& operation : converter.operations) {
    if (operation == nullptr) refuse("an operation is null");
  }
}

void check_transform(const WeightTransform& transform) {
  std::visit([](const auto& t) { check(t); }, transform);
  const TransformMatcher compiles(transform, Pattern::Use::check);
}

bool leads_back(const WeightTransform& transform) {
  try {
    check_transform(weightloom::reversed(transform));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Mapping::Mapping(std::string name, std::vector<WeightTransform> transforms, MappingRules rules)
    : name_(std::move(name)), transforms_(std::move(transforms)), rules_(std::move(rules)) {
  for (size_t i = 0; i < transforms_.size(); ++i) {
    try {
      check_transform(transforms_[i]);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("mapping '{}': transforms[{}] ({}): {}", name_, i,
                                            type_name(transforms_[i]), error.what()));
    }
  }
  const DtypeRules compile(*this);
}

Mapping Mapping::reversed() const {
  std::vector<WeightTransform> transforms;
  for (auto t = transforms_.rbegin(); t != transforms_.rend(); ++t) {
    transforms.push_back(weightloom::reversed(*t));
  }
  try {
    Mapping reversed(name_, std::move(transforms), rules_);
    reversed.renames_first_ = !renames_first_;
    return reversed;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("read backwards, {}", error.what()));
  }
}

Mapping Mapping::without_one_way_renamings() const {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < transforms_.size(); ++i) {
    if (form_of(transforms_[i]).converts || leads_back(transforms_[i])) {
      kept.push_back(static_cast<int64_t>(i));
    }
  }
  return with_only(kept);
}

Mapping Mapping::with_only(std::span<const int64_t> places) const {
  Mapping kept = *this;
  kept.transforms_.clear();
  for (const int64_t place : places) {
    kept.transforms_.push_back(transforms_.at(static_cast<size_t>(place)));
  }
  return kept;
}

Mapping Mapping::followed_by(std::span<const WeightTransform> more) const {
  Mapping longer = *this;
  longer.transforms_.insert(longer.transforms_.end(), more.begin(), more.end());
  return longer;
}

std::string Mapping::hash() const { return to_hex(fnv1a64(to_json())); }

}  // namespace weightloom
