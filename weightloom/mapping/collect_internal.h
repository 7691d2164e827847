// The first half of applying a mapping: names. Every leaf is renamed and claimed, and what one
// converter will make together is collected into a group.
//
// Thread safety: none; one Collector per call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/renaming_chain_internal.h"
#include "weightloom/mapping/runtime_names.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {

/// A tensor of a list. Where the pattern collects none, index is 0.
struct CollectedItem {
  int64_t index = 0;
  size_t leaf = 0;
};

/// What one converter makes together.
struct Group {
  size_t transform = 0;                             ///< place in the mapping
  std::vector<RenderedName> targets;                ///< full names
  std::vector<std::vector<CollectedItem>> sources;  ///< per source pattern
  bool refused = false;                             ///< there is an error finding already
  bool prefix_edited = false;  ///< the base model's prefix was put on the targets, or taken off
};

/// Where a leaf goes: into a group, or on under a name.
struct Destination {
  std::optional<size_t> group;
  std::string name;      ///< after the renames that come first; empty in a group
  bool touched = false;  ///< a transform matched
};

class Collector {
 public:
  /// Borrows both.
  Collector(const Mapping& mapping, const RuntimeNames& runtime);

  /// Takes leaf number `leaf`, of that name.
  void add(size_t leaf, std::string_view name);

  /// Takes what another collector of the same mapping collected, as if its leaves came after.
  void merge(Collector other);

  const std::vector<Destination>& destinations() const noexcept { return destinations_; }
  std::vector<Group>& groups() noexcept { return groups_; }
  std::vector<Finding>& findings() noexcept { return findings_; }
  std::vector<int64_t>& fired() noexcept { return fired_; }
  /// Names that the rules that ask for the model's names acted on.
  int64_t edited_names() const noexcept { return edited_; }
  /// Of a converter.
  TransformMatcher& matcher(size_t transform) noexcept { return *matchers_[transform]; }

  /// Finds out which groups of renames act on these names; see RenamingChain.
  void decide_guards(size_t count, const std::function<std::string_view(size_t)>& name_of) {
    renamings_.decide_guards(count, name_of);
  }
  /// Takes over what another collector of the same mapping found out.
  void take_guards(const Collector& other) { renamings_.take_guards(other.renamings_); }
  /// All renamings, chained; counted in fired(), or not.
  RenamingChain::Renamed rename(std::string name, bool count);
  /// The first target's name that a converter would make of `name`, were it a leaf; nothing if no
  /// converter claims it.
  std::optional<std::string> would_make(std::string_view name);
  /// The checkpoint's name for what would stand at `index` of source `source` in a group that holds
  /// `leaf_name`; the pattern itself if it has no one text.
  std::string absent_name(const Group& group, std::string_view leaf_name, size_t source,
                          int64_t index);

 private:
  struct Claim {
    size_t transform = 0;
    TransformMatch match;
  };

  /// What becomes of one name.
  struct Course {
    RenamingChain::Renamed renamed;
    std::vector<size_t> fired;  // renamings that acted
    std::optional<Claim> claim;
    RenderedName first_target;  // of the claim
    PrefixEdit edit;            // of what the name became
  };

  /// The groups of one transform, by the first target as shown.
  struct GroupTable {
    std::unordered_map<std::string, size_t> by_target;
    std::optional<size_t> latest;  // neighbours in name order mostly go together
  };

  Course course_of(std::string_view name);
  bool leaves_the_model(const Course& course, std::string_view name) const;
  std::optional<Claim> claim(std::string_view name);
  /// The group that the claim of a name belongs to, made if it is not there.
  size_t group_of(const Course& course);
  size_t merge_group(Group group);
  size_t make_group(const Course& course, RenderedName first_target);
  void put(Group& group, const Claim& claim, std::string_view name, size_t leaf,
           std::string_view leaf_name);

  const Mapping& mapping_;
  const RuntimeNames& runtime_;
  RenamingChain renamings_;
  std::vector<std::optional<TransformMatcher>> matchers_;  // per transform; of converters
  std::vector<size_t> converters_;
  std::vector<Destination> destinations_;
  std::vector<Group> groups_;
  std::vector<GroupTable> group_tables_;  // per transform
  std::vector<Finding> findings_;
  std::vector<int64_t> fired_;
  int64_t edited_ = 0;
};

/// Collects all leaves, on up to `threads` threads: `name_of(leaf)` for each leaf below `count`.
/// Law: the result does not depend on `threads`.
Collector collect(const Mapping& mapping, const RuntimeNames& runtime, size_t count, int threads,
                  const std::function<std::string_view(size_t leaf)>& name_of);

}  // namespace weightloom
