#include "weightloom/cli/convert_summary.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/terminal.h"

namespace weightloom::cli {
namespace {

/// "3 linked, 1 written".
std::string origins_text(const ConvertReport& report) {
  std::vector<std::string> parts;
  if (report.files_linked > 0) parts.push_back(fmt::format("{} linked", report.files_linked));
  if (report.files_copied > 0) {
    parts.push_back(fmt::format("{} copied by the kernel", report.files_copied));
  }
  if (report.files_written > 0) parts.push_back(fmt::format("{} written", report.files_written));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The layout, and the rules where they led to another one.
std::string layout_text(const FinishedConversion& run) {
  const bool converts = run.from != run.to && run.to != Side::unknown;
  if (converts) {
    return fmt::format("mapping {}, {} → {}", run.mapping, to_string(run.from), to_string(run.to));
  }
  return run.to == Side::unknown ? "same layout" : fmt::format("{} layout", to_string(run.to));
}

}  // namespace

std::string convert_json(const FinishedConversion& run) {
  const ConvertReport& report = run.report;
  JsonWriter json;
  json.begin_object().field("files", static_cast<int64_t>(report.files.size()));
  json.field("files_written", report.files_written).field("files_linked", report.files_linked);
  json.field("files_copied", report.files_copied);
  json.field("targets", report.targets).field("renamed", run.renamed);
  json.field("bytes_needed", report.bytes_needed);
  json.field("bytes_read", report.bytes_read).field("bytes_written", report.bytes_written);
  json.field("peak_memory_bytes", run.peak_memory_bytes).field("seconds", run.seconds);
  json.key("findings");
  write_findings(json, report.findings);
  json.end_object();
  return std::move(json).finish();
}

std::string convert_line(const FinishedConversion& run) {
  const ConvertReport& report = run.report;
  std::string line = fmt::format(
      "{}: {} in {} ({}), {}, {:.1f} s", run.destination, count_text(report.targets, "tensor"),
      count_text(static_cast<int64_t>(report.files.size()), "file"), origins_text(report),
      format_byte_size(report.target_bytes), run.seconds);
  if (report.resumed_bytes > 0) {
    line += fmt::format(", of which {} by an earlier run", format_byte_size(report.resumed_bytes));
  }
  if (run.renamed > 0) line += fmt::format(", {} renamed", run.renamed);
  return printable(line + ", " + layout_text(run)) + "\n";
}

}  // namespace weightloom::cli
