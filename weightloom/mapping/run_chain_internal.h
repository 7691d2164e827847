// A converter's chain of operations, run over the tensors of one group and, beside them, over their
// companions.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "weightloom/base/dtype.h"
#include "weightloom/mapping/operation.h"
#include "weightloom/mapping/transform.h"

namespace weightloom {

/// What goes into a chain, and what comes out: of a group's tensors, or of companions of theirs.
struct ChainTensors {
  std::vector<Slot> slots;
  DType dtype = DType::F32;
  size_t leaf = 0;     ///< one of those it is made of
  std::string suffix;  ///< of companions
  BlockShape block;    ///< of companions: as declared, of the last dims
};

/// The group's tensors, then their companions.
using ChainGroup = std::vector<ChainTensors>;

/// Shape: one slot per source pattern → what the last operation gives.
/// Law:    a companion's element is that of the block of tensor elements that it came from.
/// Errors: what an operation refuses; companion_refused if blocks are cut or do not end as declared.
ChainGroup run_chain(const WeightConverter& converter, ChainGroup group,
                     const OperationContext& context);

}  // namespace weightloom
