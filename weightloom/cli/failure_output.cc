#include "weightloom/cli/failure_output.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"

namespace weightloom::cli {
namespace {

void append(std::string& sentence, const std::string& clause) {
  sentence += sentence.ends_with('?') ? " " : "; ";
  sentence += clause;
}

/// True if the error says no more than its only finding, so that one line is enough.
bool repeats_its_finding(const Error& error) {
  return error.findings().size() == 1 &&
         std::string_view(error.what()).find(error.findings().front().message) !=
             std::string_view::npos;
}

}  // namespace

std::string failure_text(const std::string& who, const Error& error, bool lenient,
                         const Terminal& on) {
  std::string closing = closing_line(who, error, on);
  if (repeats_its_finding(error)) return closing;
  return findings_text(error.findings(), lenient, on) + closing;
}

std::string closing_line(const std::string& who, const Error& error, const Terminal& on) {
  std::string line = error.what();
  if (!error.next_step().empty()) append(line, "next: " + error.next_step());
  if (error.code() == ErrorCode::usage) append(line, fmt::format("see {} --help", who));
  return fmt::format("{}: {}\n", styled(on, Style::red, who), printable(line));
}

std::string failure_json(const Error& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("code", to_string(error.code())).field("message", error.what());
  json.field("next_step", error.next_step()).end_object();
  write_findings(json.key("findings"), error.findings());
  json.end_object();
  return std::move(json).finish();
}

}  // namespace weightloom::cli
