#include "weightloom/cli/finding_output.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "weightloom/plan/compile.h"

namespace weightloom::cli {
namespace {

constexpr int64_t kMostOfACode = 20;

bool is_one_of(std::string_view code, std::span<const std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string line_of(bool is_error, std::string_view code, std::string_view message,
                    const Terminal& on) {
  const std::string label =
      is_error ? styled(on, Style::red, "error") : styled(on, Style::yellow, "note");
  return fmt::format("{} [{}]: {}\n", label, code, printable(message));
}

/// The lines of the errors, or of the others.
std::string lines_of(std::span<const Finding> findings, bool lenient, bool errors,
                     const Terminal& on) {
  std::string text;
  std::map<std::string_view, int64_t> seen;
  for (const Finding& finding : findings) {
    if (is_refusal(finding, lenient) != errors) continue;
    if (++seen[finding.code] > kMostOfACode) continue;
    text += line_of(errors, finding.code, finding.message, on);
  }
  for (const auto& [code, count] : seen) {
    if (count <= kMostOfACode) continue;
    text += line_of(errors, code,
                    fmt::format("and {} more; --json lists all", count - kMostOfACode), on);
  }
  return text;
}

}  // namespace

std::string findings_text(std::span<const Finding> findings, bool lenient, const Terminal& on) {
  return lines_of(findings, lenient, true, on) + lines_of(findings, lenient, false, on);
}

void write_findings(JsonWriter& json, std::span<const Finding> findings) {
  json.begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.field("severity", to_string(finding.severity)).field("code", finding.code);
    json.field("tensor", finding.tensor).field("file", finding.file);
    json.field("message", finding.message).end_object();
  }
  json.end_array();
}

FindingGroups group_findings(std::span<const Finding> findings, bool lenient) {
  static constexpr std::array<std::string_view, 5> kMissing = {
      "missing", "missing_source", "index_gap", "target_not_written", "required_unmatched"};
  static constexpr std::array<std::string_view, 4> kUnexpected = {
      "unexpected", "source_not_used", "not_in_record", "unindexed_tensor"};
  static constexpr std::array<std::string_view, 4> kMismatched = {
      "mismatched", "shape_mismatch", "dtype_mismatch", "count_mismatch"};
  FindingGroups groups;
  for (const Finding& finding : findings) {
    (is_refusal(finding, lenient) ? groups.errors : groups.notes).push_back(finding);
    if (is_one_of(finding.code, kMissing)) groups.missing.push_back(finding);
    if (is_one_of(finding.code, kUnexpected)) groups.unexpected.push_back(finding);
    if (is_one_of(finding.code, kMismatched)) groups.mismatched.push_back(finding);
  }
  return groups;
}

}  // namespace weightloom::cli
