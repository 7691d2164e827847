#include "weightloom/cli/placement_text.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weightloom::cli {
namespace {

std::string step_text(const CutStep& step) {
  std::string text = fmt::format("{}:{}", step.axis, step.dim);
  if (step.cut.rule != CutRule::chunk) text += fmt::format(" {}", to_string(step.cut.rule));
  if (step.cut.stripes > 1) text += fmt::format(" of {} groups", step.cut.stripes);
  if (!step.cut.groups.empty()) text += fmt::format(" of {}", fmt::join(step.cut.groups, "|"));
  if (step.copies > 1) text += fmt::format(" held {} times", step.copies);
  return text;
}

std::string step_text(const PadStep& step) {
  std::string text = fmt::format("pad {}", step.dim);
  if (step.multiple > 1) text += fmt::format(" to ×{}", step.multiple);
  if (step.least > 0) text += fmt::format(" to at least {}", step.least);
  if (step.groups > 1) text += fmt::format(" in {} groups", step.groups);
  return text;
}

std::string step_text(const StageStep& step) {
  return fmt::format("{} at {}", step.axis, fmt::join(step.coordinates, ","));
}

}  // namespace

std::string placement_text(const Sharding& sharding) {
  std::vector<std::string> steps;
  if (!sharding.mesh.empty()) steps.push_back(fmt::format("on {}:", sharding.mesh));
  for (const ShardingStep& step : sharding.steps) {
    steps.push_back(std::visit([](const auto& known) { return step_text(known); }, step));
  }
  if (sharding.steps.empty()) steps.emplace_back("whole");
  return fmt::format("{}", fmt::join(steps, " "));
}

}  // namespace weightloom::cli
