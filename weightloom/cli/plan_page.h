// The page that `plan --html` writes: one file with all that it needs, which says and draws what a
// plan does.
#pragma once

#include <string>

#include "weightloom/cli/plan_picture.h"
#include "weightloom/cli/plan_report.h"

namespace weightloom::cli {

/// Law: names are escaped; each key drawn has one drawing, each file one row; the numbers are those
/// of the plan.
std::string plan_page(const PlanReport& plan, const PlanPicture& picture);

}  // namespace weightloom::cli
