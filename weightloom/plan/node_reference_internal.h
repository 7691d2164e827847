// Nodes by the reference of the codecs: all of a result, one matrix after another.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "weightloom/plan/interpret.h"
#include "weightloom/plan/program.h"

namespace weightloom {

/// The bytes of one result of a node, whose inputs are whole.
Bytes compute_reference(const ProgramNode& node, int32_t result, const std::vector<Bytes>& inputs);

}  // namespace weightloom
