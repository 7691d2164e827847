// Which companions (scales) go with what a converter takes, and whether they can follow it.
//
// Thread safety: pure functions of their arguments.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/collect_internal.h"
#include "weightloom/mapping/companions.h"

namespace weightloom {

/// Looks leaves up by name; the table is made when it is first asked, since most checkpoints never
/// do.
class LeafIndex {
 public:
  /// Borrows the leaves.
  explicit LeafIndex(std::span<const NamedLayout> leaves) : leaves_(leaves) {}

  /// The place of the leaf of that name.
  std::optional<size_t> find(std::string_view name);

 private:
  std::span<const NamedLayout> leaves_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

/// The companions of one suffix of all that a group collected, in the group's order.
struct CompanionSet {
  std::string suffix;
  BlockShape block;                         ///< as declared, of the last dims
  std::vector<std::vector<size_t>> leaves;  ///< per source, per item
};

struct CompanionSearch {
  std::vector<CompanionSet> sets;
  std::vector<Finding> findings;  ///< errors: what is missing, undeclared or of another shape
};

/// Companions of a group whose lists are whole. A rule of the mapping comes before the default of
/// its suffix. Leaves that a converter claims for itself are left to it.
/// Errors, as findings: missing_source, companion_refused, shape_mismatch, dtype_mismatch.
CompanionSearch find_companions(const Mapping& mapping, const ModelConfig& config,
                                const Group& group, std::span<const NamedLayout> leaves,
                                std::span<const Destination> destinations, LeafIndex& index);

/// A declared block as that of all dims of a tensor of `rank`: 1 for the dims in front.
/// Errors: refuses if there are fewer dims.
BlockShape block_of_rank(const BlockShape& declared, int rank);

}  // namespace weightloom
