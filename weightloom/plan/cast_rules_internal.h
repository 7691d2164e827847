// What casts do to the dtypes of targets.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/dtype_rules.h"
#include "weightloom/mapping/provenance.h"

namespace weightloom {

/// True if a glob of the cast keeps the dtype of the target `name`.
bool is_kept(const CastRule& cast, const std::string& name);

/// Casts, in order, over a set of targets. What the rules of the mapping say of a name counts
/// before a cast's own dtype; a scale of a tensor that no cast reaches (FP8, packed integers) stays
/// as it is, since nothing would make up for its lost bits.
/// Thread safety: none.
class Casting {
 public:
  /// `targets` have the dtypes from before the casts; they are copied.
  Casting(std::vector<CastRule> casts, const Mapping& mapping,
          std::span<const NamedLayout> targets);

  /// The dtype that the casts give one of the targets.
  DType dtype_of(const NamedLayout& target);

 private:
  bool is_scale_of_quantised(const std::string& name) const;

  std::vector<CastRule> casts_;
  DtypeRules rules_;
  std::vector<CompanionRule> companions_;
  std::unordered_map<std::string, DType> before_;
};

/// The report `dtype_changed` for a way back to an original whose tensors had the dtypes
/// `recorded`, in the order of `targets`: which have others, or that values were cast all the same.
struct ChangedDTypes {
  bool any = false;
  std::optional<Finding> finding;
};
ChangedDTypes changed_dtypes(std::span<const NamedLayout> targets, std::span<const DType> recorded,
                             const Provenance& record);

}  // namespace weightloom
