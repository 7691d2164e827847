// What casts did to values, in words.
#pragma once

#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/execute/progress.h"
#include "weightloom/plan/program.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// One report finding `cast_not_finite` for each target in which a cast made finite values
/// infinite: how many of how many.
std::vector<Finding> cast_findings(const CopyProgram& program, const RunStatistics& run);

}  // namespace weightloom
