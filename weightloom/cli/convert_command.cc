#include "weightloom/cli/convert_command.h"

#include <chrono>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/convert_summary.h"
#include "weightloom/cli/finding_output.h"
#include "weightloom/cli/peak_memory.h"
#include "weightloom/cli/watched_run.h"
#include "weightloom/execute/budget.h"
#include "weightloom/execute/tied_values.h"
#include "weightloom/plan/conversion.h"

namespace weightloom::cli {
namespace {

class ConvertCommand : public Command {
 public:
  std::string name() const override { return "convert"; }
  std::string summary() const override {
    return "Writes a checkpoint in another layout: hub, runtime, other shards\n"
           "\n"
           "DST is a folder, or one file when its name ends in .safetensors. It is built beside\n"
           "its place and put there in one step: until then, and after any failure, DST is as it\n"
           "was. config.json, tokenizer and other side files come along. Where the layout stays,\n"
           "so does the split into files, and files that do not change are hard-linked.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom convert Mixtral-8x7B out --to runtime\n"
           "  weightloom convert out back --to hub\n"
           "  weightloom convert Mixtral-8x7B bf16 --dtype BF16 --keep-dtype '*.gate.*'\n"
           "  weightloom convert DeepSeek-V3 bf16 --dequantize\n"
           "  weightloom convert Mixtral-8x7B out --max-shard-size 5GB --memory-budget 512MiB\n"
           "  weightloom convert Mixtral-8x7B parts --mesh fsdp=8\n"
           "  weightloom convert parts whole\n"
           "  weightloom convert trained clean --rename '^module\\.=' --checksums";
  }

  void declare(CLI::App& app) override {
    add_path(app, "SRC", source_, "A folder, a .safetensors file, or a .safetensors.index.json");
    add_path(app, "DST", destination_, "The folder or .safetensors file to write");
    add_selection_flags(app, selection_);
    add_rank_flag(app, rank_);
    add_output_flags(app, output_);
    app.add_flag("--drop-tied", drop_tied_,
                 "Write tensors that config.json says are tied once, where their\n"
                 "values are equal (default: as often as SRC has them)");
    add_run_flags(app, run_);
    add_quiet_flag(app, print_);
    add_json_flag(app, print_);
  }

  bool is_lenient() const override { return selection_.lenient; }

  ExitCode run(const CommandContext& context) override {
    const Checkpoint source = Checkpoint::open(context.calls, source_, default_threads());
    Conversion conversion =
        plan_conversion(context.calls, source, selection_, Registry::built_in());
    if (conversion.is_refused(selection_.lenient)) {
      throw refusal_of(conversion.findings, selection_.lenient);
    }
    if (drop_tied_) {
      const RunOptions run = run_.run_options(context.calls);
      conversion = without_equal_ties(context.calls, std::move(conversion), run);
    }
    conversion = for_rank(std::move(conversion), rank_);
    tell(convert_watched(context, source, conversion), context.out);
    return ExitCode::done;
  }

 private:
  FinishedConversion convert_watched(const CommandContext& context, const Checkpoint& source,
                                     const Conversion& conversion) const {
    const auto start = std::chrono::steady_clock::now();
    FinishedConversion finished{destination_,  conversion.mapping, conversion.from,
                                conversion.to, conversion.renamed, {}};
    finished.report = convert_or_cancel(context, source, conversion);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    finished.seconds = elapsed.count();
    finished.peak_memory_bytes = peak_resident_bytes(context.calls);
    return finished;
  }

  ConvertReport convert_or_cancel(const CommandContext& context, const Checkpoint& source,
                                  const Conversion& conversion) const {
    const WatchedRun watched(context.calls, context.err, run_, print_);
    try {
      return convert(context.calls, source, conversion, selection_.lenient, destination_, output_,
                     watched.options());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      throw Error(ErrorCode::cancelled, fmt::format("cancelled; {} is as it was", destination_));
    }
  }

  /// DST is in place, whatever becomes of the words about it.
  void tell(const FinishedConversion& run, const Terminal& on) const {
    try {
      write_stdout(text_of(run, on));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{} is in place, but {}", destination_, error.what()),
                  error.next_step());
    }
  }

  std::string text_of(const FinishedConversion& run, const Terminal& on) const {
    if (print_.json) return convert_json(run);
    if (print_.quiet) return "";
    return findings_text(run.report.findings, selection_.lenient, on) + convert_line(run);
  }

  std::string source_;
  std::string destination_;
  Selection selection_;
  RankFlag rank_;
  OutputOptions output_;
  bool drop_tied_ = false;
  RunFlags run_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace weightloom::cli
