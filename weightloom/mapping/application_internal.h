// One application of a mapping to leaves, step by step. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/collect_internal.h"
#include "weightloom/mapping/companion_groups_internal.h"
#include "weightloom/mapping/run_chain_internal.h"

namespace weightloom {

/// A tensor of the result and a leaf it was made of.
struct Product {
  NamedLayout tensor;
  size_t leaf = 0;
  std::optional<size_t> transform;  // the converter that made it
  bool prefix_edited = false;       // its name is not what the converter's target says
};

class Application {
 public:
  Application(const Mapping& mapping, std::vector<NamedLayout> leaves, const ModelConfig& config,
              const ApplyOptions& options)
      : mapping_(mapping),
        leaves_(std::move(leaves)),
        config_(config),
        mixed_floats_(options.mixed_floats),
        runtime_(options.runtime),
        collector_(collect(mapping, options.runtime, leaves_.size(), options.threads,
                           [this](size_t leaf) { return std::string_view(leaves_[leaf].name); })),
        index_(leaves_),
        has_companions_(may_have_companions()) {}

  MappingResult run() && {
    take_findings(std::move(collector_.findings()));
    check_groups();
    follow_companions();
    check_companions();
    pass_through();
    for (size_t group = 0; group < collector_.groups().size(); ++group) {
      if (!collector_.groups()[group].refused) convert(group);
    }
    rename_products();
    name_companions_like_owners();
    check_required();
    return finish();
  }

 private:
  void add(std::string code, std::string tensor, std::string message) {
    result_.findings.push_back(
        {Severity::error, std::move(code), std::move(tensor), "", std::move(message)});
  }
  void take_findings(std::vector<Finding> findings) {
    std::ranges::move(findings, std::back_inserter(result_.findings));
  }
  const WeightConverter& converter(const Group& group) const {
    return std::get<WeightConverter>(mapping_.transforms()[group.transform]);
  }

  bool may_have_companions() const;
  void follow_companions();
  void check_companions();
  std::optional<std::string> target_without(size_t companion, const std::string& owner,
                                            std::optional<size_t> owner_leaf);
  void check_groups();
  void pass_through();
  void convert(size_t group);
  ChainGroup chain_group(const Group& group, const std::vector<CompanionSet>& sets);
  std::vector<Slot> slots_of(const Group& group);
  std::vector<Slot> slots_of(const Group& group, const CompanionSet& set);
  void emit(const Group& group, ChainTensors made);
  void rename_products();
  void undo_renames();
  bool would_act_again(const std::string& name);
  void refuse_rewritten_products();
  void name_companions_like_owners();
  void check_required();
  void drop_duplicates();
  MappingResult finish();

  const Mapping& mapping_;
  std::vector<NamedLayout> leaves_;
  const ModelConfig& config_;
  const bool mixed_floats_;
  const RuntimeNames& runtime_;
  Collector collector_;
  LeafIndex index_;
  bool has_companions_;
  std::vector<std::vector<CompanionSet>> companions_;  // per group
  std::vector<bool> follows_;                          // per leaf: goes with its owner
  std::vector<Product> products_;
  MappingResult result_;
};

}  // namespace weightloom
