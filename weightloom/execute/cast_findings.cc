#include "weightloom/execute/cast_findings.h"

#include <fmt/format.h>

namespace weightloom {
namespace {

std::string message_of(const ProgramTarget& target, int64_t count) {
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
        {Severity::report, "cast_not_finite", target.name, "", message_of(target, count)});
  }
  return findings;
}

}  // namespace weightloom
