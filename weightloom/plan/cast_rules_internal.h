// What casts do to the dtypes of targets.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/mapping/apply.h"
#include "weightloom/mapping/dtype_rules.h"
#include "weightloom/mapping/provenance.h"

namespace weightloom {

/// True if a glob of the cast keeps the dtype of the target `name`.
bool is_kept(const CastRule& cast, const std::string& name);

/// The dtype that casts, in order, give a target that had `dtype`.
/// What the rules of the mapping say of a name counts before the cast's own dtype.
DType dtype_after(std::span<const CastRule> casts, DtypeRules& rules, const std::string& name,
                  DType dtype);

/// The report `dtype_changed` for a way back to an original whose tensors had the dtypes
/// `recorded`, in the order of `targets`: which have others, or that values were cast all the same.
struct ChangedDTypes {
  bool any = false;
  std::optional<Finding> finding;
};
ChangedDTypes changed_dtypes(std::span<const NamedLayout> targets, std::span<const DType> recorded,
                             const Provenance& record);

}  // namespace weightloom
