#include "weightloom/cli/verify_command.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/error.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/watched_run.h"
#include "weightloom/execute/budget.h"
#include "weightloom/execute/verify.h"
#include "weightloom/plan/compile.h"

namespace weightloom::cli {
namespace {

constexpr size_t kMostDifferences = 20;

std::string as_json(const VerifyReport& report) {
  JsonWriter json;
  json.begin_object().field("equal", report.equal).key("differences").begin_array();
  for (const Difference& difference : report.differences) {
    json.begin_object().field("tensor", difference.tensor).field("code", difference.code);
    json.field("message", difference.message).end_object();
  }
  json.end_array().key("findings");
  write_findings(json, report.findings);
  json.end_object();
  return std::move(json).finish();
}

std::string differences_text(const std::vector<Difference>& differences, const Terminal& on) {
  std::string text;
  const std::string label = styled(on, Style::red, "differs");
  for (size_t i = 0; i < std::min(differences.size(), kMostDifferences); ++i) {
    text +=
        fmt::format("{} [{}]: {}\n", label, differences[i].code, printable(differences[i].message));
  }
  if (differences.size() > kMostDifferences) {
    text += fmt::format("{}: and {} more; --json lists all\n", label,
                        differences.size() - kMostDifferences);
  }
  return text;
}

std::string amount_text(const VerifyReport& report) {
  return fmt::format("{}, {}", count_text(report.tensors, "tensor"),
                     format_byte_size(report.bytes));
}

class VerifyCommand : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "Is a checkpoint whole; are two the same, whatever their layouts\n"
           "\n"
           "A alone: headers and index agree, and every byte of data can be read; where\n"
           "weightloom.checksums.json stands in it, every tensor has its digest. A and B: B is\n"
           "brought to A's layout and compared bit for bit; --from says which layout B is in, and\n"
           "--rename changes B's names first.\n"
           "With --dtype B is cast too: give the checkpoint that was cast as A, its source as B.\n"
           "Ends with 1 on errors or differences.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom verify Mixtral-8x7B\n"
           "  weightloom verify Mixtral-8x7B Mixtral-8x7B-runtime\n"
           "  weightloom verify Mixtral-8x7B-bf16 Mixtral-8x7B --dtype BF16\n"
           "  weightloom verify Mixtral-8x7B other --include '*.layers.0.*' --json";
  }

  void declare(CLI::App& app) override {
    add_path(app, "A", a_, "A folder, a .safetensors file, or a .safetensors.index.json");
    app.add_option("B", b_, "Another, to compare with A")->option_text(" ");
    add_selection_flags(app, selection_);
    add_run_flags(app, run_);
    add_quiet_flag(app, print_);
    add_json_flag(app, print_);
  }

  ExitCode failure_code() const override { return ExitCode::differs; }
  bool is_lenient() const override { return selection_.lenient; }

  ExitCode run(const CommandContext& context) override {
    const VerifyReport report = verify(context);
    const bool passed = report.equal && !has_refusals(report);
    write_stdout(text_of(report, passed, context.out));
    return passed ? ExitCode::done : ExitCode::differs;
  }

 private:
  VerifyReport verify(const CommandContext& context) const {
    const Checkpoint a = Checkpoint::open(context.calls, a_, default_threads());
    const WatchedRun watched(context.calls, context.err, run_, print_);
    if (b_.empty()) return verify_readable(context.calls, a, watched.options());
    const Checkpoint b = Checkpoint::open(context.calls, b_, default_threads());
    return verify_equal(context.calls, a, b, selection_, Registry::built_in(), watched.options());
  }

  bool has_refusals(const VerifyReport& report) const {
    return std::any_of(
        report.findings.begin(), report.findings.end(),
        [this](const Finding& finding) { return is_refusal(finding, selection_.lenient); });
  }

  std::string text_of(const VerifyReport& report, bool passed, const Terminal& on) const {
    if (print_.json) return as_json(report);
    if (print_.quiet && passed) return "";
    return findings_text(report.findings, selection_.lenient, on) +
           differences_text(report.differences, on) + verdict(report, passed, on);
  }

  std::string verdict(const VerifyReport& report, bool passed, const Terminal& on) const {
    if (!passed) {
      const std::string what =
          report.equal ? fmt::format("{} has errors", a_)
                       : fmt::format("{} and {} differ: {} in {}", a_, b_,
                                     count_text(static_cast<int64_t>(report.differences.size()),
                                                "difference"),
                                     amount_text(report));
      return styled(on, Style::red, printable(what)) + "\n";
    }
    const std::string_view agreeing =
        report.has_checksums ? "headers, index, data and checksums" : "headers, index and data";
    const std::string what = b_.empty() ? fmt::format("{} is whole: {} agree", a_, agreeing)
                                        : fmt::format("{} and {} are equal bit for bit", a_, b_);
    return fmt::format("{} ({})\n", styled(on, Style::green, printable(what)), amount_text(report));
  }

  std::string a_;
  std::string b_;
  Selection selection_;
  RunFlags run_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace weightloom::cli
