// What `plan` says to people.
#pragma once

#include <string>

#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

/// The summary, what becomes of names (folded), and the findings.
std::string plan_text(const PlanReport& plan, const Terminal& on);

}  // namespace weightloom::cli
