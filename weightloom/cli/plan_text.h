// What `plan` says to people.
#pragma once

#include <string>

#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

/// The summary, what becomes of names (folded), and the findings.
std::string plan_text(const PlanReport& plan, const Terminal& on);

/// From where, to where, over which mesh.
struct PlanWords {
  std::string from;
  std::string to;
  std::string mesh;  // "" without one
};
PlanWords words_of(const PlanReport& plan);

}  // namespace weightloom::cli
