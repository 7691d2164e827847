#include "weightloom/cli/plan_command.h"

#include <numeric>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/base/file.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/failure_output.h"
#include "weightloom/cli/plan_json.h"
#include "weightloom/cli/plan_page.h"
#include "weightloom/cli/plan_picture.h"
#include "weightloom/cli/plan_report.h"
#include "weightloom/cli/plan_text.h"
#include "weightloom/cli/rank_plans.h"
#include "weightloom/execute/budget.h"
#include "weightloom/plan/dump.h"

namespace weightloom::cli {
namespace {

class PlanCommand : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string summary() const override {
    return "What convert would do: targets, bytes, memory, disk, findings\n"
           "\n"
           "Reads headers only and moves nothing. Everything that is wrong with names, shapes\n"
           "or coverage is found here. Ends with 1 when the conversion would be refused.\n";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  weightloom plan Mixtral-8x7B --to runtime\n"
           "  weightloom plan Mixtral-8x7B --to runtime --include '*.layers.0.*'\n"
           "  weightloom plan Mixtral-8x7B --to runtime --json | jq .bytes_read\n"
           "  weightloom plan Mixtral-8x7B --mesh fsdp=8\n"
           "  weightloom plan Mixtral-8x7B --mesh fsdp=8 --html plan.html";
  }

  void declare(CLI::App& app) override {
    add_path(app, "SRC", source_, "A folder, a .safetensors file, or a .safetensors.index.json");
    add_selection_flags(app, selection_);
    add_rank_flag(app, rank_);
    add_run_flags(app, run_);
    app.add_option("--html", page_, "Write a page that draws each tensor's way from files to ranks")
        ->option_text("FILE");
    app.add_flag("--dump", dump_, "Print the copy program as text instead: stable, for diffs");
    add_json_flag(app, print_);
  }

  ExitCode failure_code() const override { return ExitCode::differs; }
  bool is_lenient() const override { return selection_.lenient; }

  ExitCode run(const CommandContext& context) override {
    const Checkpoint source = Checkpoint::open(context.calls, source_, default_threads());
    PlanReport plan = make_plan(context.calls, source, selection_, run_.run_options(context.calls));
    tell(context, source, plan);
    if (!plan.is_refused()) return ExitCode::done;
    tell_refusal(plan, context.err);
    return ExitCode::differs;
  }

 private:
  void tell(const CommandContext& context, const Checkpoint& source, PlanReport& plan) const {
    const std::vector<int64_t> ranks = wanted_ranks(plan.conversion, rank_);
    if (!ranks.empty()) {
      tell_of_ranks(context, source, plan, ranks);
    } else if (!page_.empty()) {
      draw_whole(context.calls, plan);
    }
    if (print_.json) {
      if (ranks.empty()) write_stdout(plan_json(plan));
    } else if (dump_) {
      if (ranks.empty()) write_stdout(dump(plan.conversion.program));
    } else {
      write_stdout(plan_text(plan, context.out));
    }
  }

  /// Rank by rank what is printed of each, and into the plan what is told of all.
  void tell_of_ranks(const CommandContext& context, const Checkpoint& source, PlanReport& plan,
                     std::span<const int64_t> ranks) const {
    RankPlans made(context.calls, source, plan, run_.run_options(context.calls));
    std::optional<PlanPainter> painter;
    if (!page_.empty()) painter.emplace(made.whole(), &made.spread());
    const bool is_list = print_.json && !rank_.rank;
    std::string_view before = is_list ? "[" : "";
    plan.disk_bytes_needed = 0;
    made.for_each(ranks, [&](const RankPlan& rank) {
      write_stdout(before);
      write_stdout(text_of(plan, rank, made.world_size()));
      before = is_list ? "," : "";
      if (painter) painter->add(rank.rank, rank.program, rank.wholes, rank.cost);
      plan.ranks.push_back(rank.summary());
      plan.disk_bytes_needed += rank.disk_bytes_needed;
      plan.cost = rank.cost;
    });
    if (is_list) write_stdout("]\n");
    if (!rank_.rank) plan.cost = made.together();
    if (painter) write_page(context.calls, plan, *std::move(painter));
  }

  /// Without a mesh one process makes all targets.
  void draw_whole(const Syscalls& calls, const PlanReport& plan) const {
    const CopyProgram& program = plan.conversion.program;
    std::vector<size_t> wholes(program.targets().size());
    std::iota(wholes.begin(), wholes.end(), size_t{0});
    PlanPainter painter(program, nullptr);
    painter.add(0, program, wholes, plan.cost);
    write_page(calls, plan, std::move(painter));
  }

  void write_page(const Syscalls& calls, const PlanReport& plan, PlanPainter painter) const {
    write_whole_file(calls, page_, plan_page(plan, std::move(painter).finish()));
  }

  std::string text_of(const PlanReport& plan, const RankPlan& rank, int64_t world_size) const {
    if (print_.json) return rank_json(plan, rank, world_size);
    if (dump_) return fmt::format("# rank {}\n{}", rank.rank, dump(rank.program));
    return "";
  }

  /// The findings are on stdout already; this is the closing line.
  void tell_refusal(const PlanReport& plan, const Terminal& on) const {
    const Error refusal = refusal_of(plan.conversion.findings, plan.lenient);
    write_stderr(closing_line("weightloom plan", refusal, on));
  }

  std::string source_;
  Selection selection_;
  RankFlag rank_;
  RunFlags run_;
  bool dump_ = false;
  std::string page_;
  PrintFlags print_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace weightloom::cli
