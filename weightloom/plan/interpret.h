// The reference interpreter: runs a program one byte or one cast at a time, in the plainest way.
// The oracle that every executor must equal.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "weightloom/base/export.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Bytes of one tensor.
using Bytes = std::vector<std::byte>;

/// Gives the bytes of source `i` of the program.
using SourceBytes = std::function<Bytes(const ProgramSource& source)>;

/// The bytes of each target, in program order.
std::vector<Bytes> interpret(const CopyProgram& program, const SourceBytes& source_bytes);

}  // namespace weightloom
