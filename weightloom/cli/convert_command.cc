#include "weightloom/cli/convert_command.h"

#include <chrono>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/error.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/interrupt.h"
#include "weightloom/cli/json_output.h"
#include "weightloom/cli/peak_memory.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/table.h"
#include "weightloom/execute/budget.h"
#include "weightloom/plan/conversion.h"

namespace weightloom::cli {
namespace {

/// A run that is over.
struct Finished {
  ConvertReport report;
  std::string mapping;
  double seconds = 0;
  int64_t peak_memory_bytes = 0;
};

std::string as_json(const Finished& run) {
  const ConvertReport& report = run.report;
  JsonWriter json;
  json.begin_object().field("files", static_cast<int64_t>(report.files.size()));
  json.field("targets", report.targets).field("bytes_needed", report.bytes_needed);
  json.field("bytes_read", report.bytes_read).field("bytes_written", report.bytes_written);
  json.field("peak_memory_bytes", run.peak_memory_bytes).field("seconds", run.seconds);
  json.key("findings");
  write_findings(json, report.findings);
  json.end_object();
  return std::move(json).finish();
}

std::string summary_text(const Finished& run) {
  const ConvertReport& report = run.report;
  Table table({Align::left, Align::left});
  table.add({"mapping", printable(run.mapping)});
  table.add(
      {"targets", fmt::format("{} in {}", report.targets,
                              count_text(static_cast<int64_t>(report.files.size()), "file"))});
  table.add({"read", fmt::format("{} of {} needed", format_byte_size(report.bytes_read),
                                 format_byte_size(report.bytes_needed))});
  table.add({"written", format_byte_size(report.bytes_written)});
  if (report.resumed_bytes > 0) {
    table.add({"resumed", format_byte_size(report.resumed_bytes) + " made by an earlier run"});
  }
  table.add({"time", fmt::format("{:.1f} s, {}", run.seconds,
                                 format_rate(report.bytes_written, run.seconds))});
  table.add({"memory", format_byte_size(run.peak_memory_bytes) + " at most"});
  return table.text(2);
}

class ConvertCommand : public Command {
 public:
  std::string name() const override { return "convert"; }
  std::string summary() const override {
    return "Writes a checkpoint in another layout: hub, runtime, other shards\n"
           "\n"
           "DST is a folder, or one file when its name ends in .safetensors. It is built beside\n"
           "its place and put there in one step: until then, and after any failure, DST is as it\n"
           "was. config.json, tokenizer and other side files come along.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom convert Mixtral-8x7B out --to runtime\n"
           "  weightloom convert out back --to hub\n"
           "  weightloom convert Mixtral-8x7B bf16 --dtype BF16 --keep-dtype '*.gate.*'\n"
           "  weightloom convert Mixtral-8x7B out --max-shard-size 5GB --memory-budget 512MiB";
  }

  void declare(CLI::App& app) override {
    add_path(app, "SRC", source_, "A folder, a .safetensors file, or a .safetensors.index.json");
    add_path(app, "DST", destination_, "The folder or .safetensors file to write");
    add_selection_flags(app, selection_);
    add_output_flags(app, output_);
    add_run_flags(app, run_);
    add_quiet_flag(app, print_);
    add_json_flag(app, print_);
  }

  bool is_lenient() const override { return selection_.lenient; }

  ExitCode run(const CommandContext& context) override {
    const Checkpoint source = Checkpoint::open(context.calls, source_, default_threads());
    const Conversion conversion =
        plan_conversion(context.calls, source, selection_, Registry::built_in());
    if (conversion.is_refused(selection_.lenient)) {
      throw refusal_of(conversion.findings, selection_.lenient);
    }
    const Finished finished = convert_watched(context, source, conversion);
    write_stdout(text_of(finished, context.out));
    return ExitCode::done;
  }

 private:
  Finished convert_watched(const CommandContext& context, const Checkpoint& source,
                           const Conversion& conversion) const {
    const auto start = std::chrono::steady_clock::now();
    Finished finished;
    finished.mapping = conversion.mapping;
    finished.report = convert_or_cancel(context, source, conversion);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    finished.seconds = elapsed.count();
    finished.peak_memory_bytes = peak_resident_bytes(context.calls);
    return finished;
  }

  ConvertReport convert_or_cancel(const CommandContext& context, const Checkpoint& source,
                                  const Conversion& conversion) const {
    const InterruptWatch interrupt;
    ProgressBar bar(context.calls, context.err);
    RunOptions options = run_.run_options(context.calls);
    options.stop = interrupt.token();
    if (!print_.quiet && !print_.json) {
      options.progress = [&bar](const Progress& progress) { bar.update(progress); };
    }
    try {
      return convert(context.calls, source, conversion, selection_.lenient, destination_, output_,
                     options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      throw Error(ErrorCode::cancelled, fmt::format("cancelled; {} is as it was", destination_));
    }
  }

  std::string text_of(const Finished& run, const Terminal& on) const {
    if (print_.json) return as_json(run);
    if (print_.quiet) return "";
    std::string text = styled(on, Style::bold, printable(destination_)) + "\n" + summary_text(run);
    const auto& findings = run.report.findings;
    if (!findings.empty()) text += "\n" + findings_text(findings, selection_.lenient, on);
    return text;
  }

  std::string source_;
  std::string destination_;
  Selection selection_;
  OutputOptions output_;
  RunFlags run_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace weightloom::cli
