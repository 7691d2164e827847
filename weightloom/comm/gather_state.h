// What the ranks of a group hold together, from what each of them knows of its own part.
// Thread safety: as the group.
#pragma once

#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/comm/process_group.h"
#include "weightloom/sharding/rank_tensors.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Collective: all ranks get the same.
/// Errors, on all ranks: as state_of().
JointState gather_state(ProcessGroup& group, const std::vector<RankTensor>& mine);

}  // namespace weightloom
