// Runs codecs on boxes in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weightloom/plan/program.h"
#include "weightloom/plan/schedule.h"

namespace weightloom {

/// Computes a box of a node from its inputs, which lie in `staging`, and puts the results where the
/// computation says, in `staging` or in `memory`. Gives how many values are infinite or NaN.
int64_t compute(const ProgramNode& node, const Computation& computation, std::byte* staging,
                std::byte* memory);

}  // namespace weightloom
