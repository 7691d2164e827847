#include "weightloom/execute/cast_findings.h"

#include <algorithm>

#include <fmt/format.h>

namespace weightloom {
namespace {

/// True if a target is made of codes, or of their scales.
bool is_encoded(const CopyProgram& program, const ProgramTarget& target) {
  return std::ranges::any_of(target.regions, [&](const Region& region) {
    if (region.is_pad() || !program.source_of(region).is_computed()) return false;
    return program.nodes()[static_cast<size_t>(program.source_of(region).node)].encodes;
  });
}

std::string message_of(const CopyProgram& program, const ProgramTarget& target, int64_t count) {
  if (target.is_computed && is_encoded(program, target)) {
    return fmt::format("'{}': {} of the values that it was quantised from are infinite or NaN",
                       target.name, count);
  }
  if (target.is_computed) {
    return fmt::format(
        "'{}': {} of {} values are infinite or NaN, by their codes and scales or in "
        "{}",
        target.name, count, elements(target.shape), to_string(target.dtype));
  }
  return fmt::format(
      "'{}': {} of {} values were finite and became infinite in {}, whose range is smaller",
      target.name, count, elements(target.shape), to_string(target.dtype));
}

}  // namespace

std::vector<Finding> cast_findings(const CopyProgram& program, const RunStatistics& run) {
  std::vector<Finding> findings;
  for (const auto& [place, count] : run.not_finite) {
    const ProgramTarget& target = program.targets()[static_cast<size_t>(place)];
    findings.push_back(
        {Severity::report, "cast_not_finite", target.name, "", message_of(program, target, count)});
  }
  return findings;
}

}  // namespace weightloom
