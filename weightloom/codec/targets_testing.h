// For tests: every instruction set that this processor has.
#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace weightloom::testing {

/// Runs `check` with each of the instruction sets that this processor has.
template <typename Check>
void with_each_target(Check check) {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  targets.push_back(HWY_STATIC_TARGET);
  for (int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace weightloom::testing
