// Findings as people and programs read them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/terminal.h"

namespace weightloom::cli {

/// One line each, errors first, at most 20 of one code and then how many more there are:
///   error [missing_source]: …
/// Under `lenient`, findings that leniency lets pass are notes.
std::string findings_text(std::span<const Finding> findings, bool lenient, const Terminal& on);

/// `[{severity, code, tensor, file, message}, …]`.
void write_findings(JsonWriter& json, std::span<const Finding> findings);

/// The report of `plan --json`. A finding stands in `errors` or in `notes`, and, by its code, in
/// one of the other lists too.
struct FindingGroups {
  std::vector<Finding> missing;     // wanted and not there
  std::vector<Finding> unexpected;  // there and not wanted
  std::vector<Finding> mismatched;  // shape or dtype disagrees
  std::vector<Finding> errors;      // refuse the plan
  std::vector<Finding> notes;       // the others
};
FindingGroups group_findings(std::span<const Finding> findings, bool lenient);

}  // namespace weightloom::cli
