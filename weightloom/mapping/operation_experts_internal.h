// The expert split of ERNIE 4.5 VL MoE, in the form of an operation of one's own: written against
// the public interface, named in operation_makers.cc. Private to the room.
#pragma once

#include "weightloom/mapping/operation.h"

namespace weightloom::internal {

/// Each source's list is cut into as many runs as there are targets (the last may be shorter); run
/// t of each source is stacked along `stack_dim`, and these are joined along `concat_dim`.
/// Shape: per source a list of L tensors → per target [L/targets, …].
OperationPtr make_fuse_experts(int stack_dim, int concat_dim);
/// The reverse: each source is cut into as many equal parts along `concat_dim` as there are
/// targets, and part t of all sources, taken apart along `stack_dim`, makes target t's list.
OperationPtr make_split_experts(int stack_dim, int concat_dim);

}  // namespace weightloom::internal
