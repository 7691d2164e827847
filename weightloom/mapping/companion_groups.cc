#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/checked.h"
#include "weightloom/mapping/companion_groups_internal.h"

namespace weightloom {
namespace {

std::vector<CompanionRule> rules_of(const Mapping& mapping) {
  std::vector<CompanionRule> rules = mapping.companions();
  for (const CompanionRule& rule : default_companion_rules()) {
    const auto same = std::ranges::find(rules, rule.suffix, &CompanionRule::suffix);
    if (same == rules.end()) rules.push_back(rule);
  }
  return rules;
}

/// The shape of a tensor with one element per block.
Shape grid_of(const Shape& shape, const BlockShape& block) {
  Shape grid;
  for (size_t i = 0; i < shape.size(); ++i) {
    grid.push_back(block[i] == kWholeDim ? 1 : ceil_div(shape[i], block[i]));
  }
  return grid;
}

/// The search for the companions of one rule in one group.
class RuleSearch {
 public:
  RuleSearch(const CompanionRule& rule, const ModelConfig& config, const Group& group,
             std::span<const NamedLayout> leaves, std::span<const Destination> destinations,
             LeafIndex& index)
      : rule_(rule),
        config_(config),
        group_(group),
        leaves_(leaves),
        destinations_(destinations),
        index_(index) {}

  void run(CompanionSearch& result) {
    look_up();
    if (present_ == 0) return;
    if (!absent_.empty()) report_absent();
    const auto block = rule_.block_of(config_);
    if (!block) report_undeclared();
    if (findings_.empty()) check_grids(*block);
    std::ranges::move(findings_, std::back_inserter(result.findings));
    set_.suffix = rule_.suffix;
    set_.block = block.value_or(BlockShape{});
    result.sets.push_back(std::move(set_));
  }

 private:
  void look_up() {
    for (const auto& items : group_.sources) {
      auto& found = set_.leaves.emplace_back();
      for (const CollectedItem& item : items) {
        const std::string name = leaves_[item.leaf].name + rule_.suffix;
        const auto leaf = index_.find(name);
        if (leaf && !destinations_[*leaf].group) {
          found.push_back(*leaf);
          ++present_;
        } else {
          absent_.push_back(name);
        }
      }
    }
  }

  std::string target() const { return group_.targets.front().shown(); }

  void add(std::string code, const std::string& tensor, std::string message) {
    findings_.push_back({Severity::error, std::move(code), tensor, "", std::move(message)});
  }

  void report_absent() {
    add("missing_source", absent_.front(),
        fmt::format("'{}': {} of its sources have a '{}', but {} have none: '{}' is missing",
                    target(), present_, rule_.suffix, absent_.size(), absent_.front()));
  }

  void report_undeclared() {
    add("companion_refused", target(),
        fmt::format("'{}': its sources have a '{}', but config.json does not say the size of their "
                    "blocks under '{}'",
                    target(), rule_.suffix, rule_.block_key));
  }

  void check_grids(const BlockShape& declared) {
    const NamedLayout* first = nullptr;
    for (size_t s = 0; s < set_.leaves.size(); ++s) {
      for (size_t i = 0; i < set_.leaves[s].size(); ++i) {
        const NamedLayout& companion = leaves_[set_.leaves[s][i]];
        if (first == nullptr) first = &companion;
        if (!check_grid(leaves_[group_.sources[s][i].leaf], companion, declared)) return;
        if (companion.dtype == first->dtype) continue;
        return add("dtype_mismatch", companion.name,
                   fmt::format("'{}' is {}, but '{}' is {}", companion.name,
                               to_string(companion.dtype), first->name, to_string(first->dtype)));
      }
    }
  }

  bool check_grid(const NamedLayout& owner, const NamedLayout& companion,
                  const BlockShape& declared) {
    const Shape& shape = owner.layout.shape();
    const bool fits = declared.size() <= shape.size();
    const Shape grid =
        fits ? grid_of(shape, block_of_rank(declared, owner.layout.rank())) : Shape{};
    if (fits && companion.layout.shape() == grid) return true;
    add("shape_mismatch", companion.name,
        fmt::format("'{}' is {}, but '{}' {} in blocks of [{}] needs {}", companion.name,
                    to_string(companion.layout.shape()), owner.name, to_string(shape),
                    fmt::join(declared, ", "), fits ? to_string(grid) : "more dims"));
    return false;
  }

  const CompanionRule& rule_;
  const ModelConfig& config_;
  const Group& group_;
  std::span<const NamedLayout> leaves_;
  std::span<const Destination> destinations_;
  LeafIndex& index_;
  CompanionSet set_;
  size_t present_ = 0;
  std::vector<std::string> absent_;
  std::vector<Finding> findings_;
};

}  // namespace

std::optional<size_t> LeafIndex::find(std::string_view name) {
  if (by_name_.empty()) {
    by_name_.reserve(leaves_.size());
    for (size_t i = 0; i < leaves_.size(); ++i) by_name_.emplace(leaves_[i].name, i);
  }
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

CompanionSearch find_companions(const Mapping& mapping, const ModelConfig& config,
                                const Group& group, std::span<const NamedLayout> leaves,
                                std::span<const Destination> destinations, LeafIndex& index) {
  CompanionSearch result;
  for (const CompanionRule& rule : rules_of(mapping)) {
    RuleSearch(rule, config, group, leaves, destinations, index).run(result);
  }
  return result;
}

BlockShape block_of_rank(const BlockShape& declared, int rank) {
  const auto dims = static_cast<size_t>(rank);
  if (declared.size() > dims) {
    refuse_operation("companion_refused",
                     fmt::format("blocks of [{}] have more dims than a tensor of rank {}",
                                 fmt::join(declared, ", "), rank));
  }
  BlockShape block(dims - declared.size(), 1);
  block.insert(block.end(), declared.begin(), declared.end());
  return block;
}

}  // namespace weightloom
