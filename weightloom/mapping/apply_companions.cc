// Scales and their like go with the weights that they belong to, or are refused.
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "weightloom/mapping/application_internal.h"
#include "weightloom/mapping/companions.h"

namespace weightloom {
namespace {

/// Pairs of a tensor and its companion that stand in the way of one target.
struct Companions {
  std::string owner;
  std::string companion;
  bool owner_present = true;
  int64_t count = 0;
};

}  // namespace

/// True if some leaf is named like a companion.
bool Application::may_have_companions() const {
  return std::ranges::any_of(leaves_, [&](const NamedLayout& leaf) {
    return !companion_owners(leaf.name, mapping_.companions()).empty();
  });
}

/// The target that takes `owner` (leaf `owner_leaf`, if there is one) without its companion.
std::optional<std::string> Application::target_without(size_t companion, const std::string& owner,
                                                       std::optional<size_t> owner_leaf) {
  if (!owner_leaf) return collector_.would_make(owner);
  const auto group = collector_.destinations()[*owner_leaf].group;
  if (!group || group == collector_.destinations()[companion].group) return std::nullopt;
  collector_.groups()[*group].refused = true;
  return collector_.groups()[*group].targets.front().shown();
}

void Application::follow_companions() {
  follows_.assign(leaves_.size(), false);
  companions_.resize(collector_.groups().size());
  if (!has_companions_) return;
  for (size_t g = 0; g < companions_.size(); ++g) {
    Group& group = collector_.groups()[g];
    CompanionSearch search =
        find_companions(mapping_, config_, group, leaves_, collector_.destinations(), index_);
    for (const CompanionSet& set : search.sets) {
      for (const auto& leaves : set.leaves) {
        for (const size_t leaf : leaves) follows_[leaf] = true;
      }
    }
    if (!group.refused) take_findings(search.findings);
    group.refused = group.refused || !search.findings.empty();
    companions_[g] = std::move(search.sets);
  }
}

void Application::check_companions() {
  if (!has_companions_) return;
  std::map<std::string, Companions> by_target;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (follows_[leaf]) continue;
    for (const auto& owner : companion_owners(leaves_[leaf].name, mapping_.companions())) {
      const auto owner_leaf = index_.find(owner);
      const auto target = target_without(leaf, owner, owner_leaf);
      if (!target) continue;
      const Companions first{owner, leaves_[leaf].name, owner_leaf.has_value()};
      ++by_target.try_emplace(*target, first).first->second.count;
    }
  }
  for (const auto& [target, pairs] : by_target) {
    add("companion_refused", pairs.companion,
        fmt::format("'{}': {} of its sources {} a companion that this mapping does not convert: "
                    "'{}' {} '{}'",
                    target, pairs.count, pairs.count == 1 ? "has" : "have", pairs.companion,
                    pairs.owner_present ? "belongs to" : "stands without its", pairs.owner));
  }
}

/// A companion that no renaming touched is named like the owner that one did.
void Application::name_companions_like_owners() {
  if (!has_companions_) return;
  std::unordered_map<size_t, size_t> passed;  // leaf → product
  for (size_t i = 0; i < products_.size(); ++i) {
    if (!products_[i].transform) passed.emplace(products_[i].leaf, i);
  }
  for (const auto& [leaf, place] : passed) {
    const std::string& name = leaves_[leaf].name;
    if (products_[place].tensor.name != name) continue;
    for (const auto& owner : companion_owners(name, mapping_.companions())) {
      const auto owner_leaf = name.starts_with(owner) ? index_.find(owner) : std::nullopt;
      const auto found = owner_leaf ? passed.find(*owner_leaf) : passed.end();
      if (found == passed.end()) continue;
      products_[place].tensor.name =
          products_[found->second].tensor.name + name.substr(owner.size());
    }
  }
}

}  // namespace weightloom
