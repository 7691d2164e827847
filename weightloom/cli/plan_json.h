// The JSON values of `plan --json`.
#pragma once

#include <string>

#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/rank_plans.h"

namespace weightloom::cli {

/// Of a conversion without ranks.
std::string plan_json(const PlanReport& plan);
/// Of one rank of it.
std::string rank_json(const PlanReport& plan, const RankPlan& rank, int64_t world_size);

}  // namespace weightloom::cli
