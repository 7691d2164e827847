#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "weightloom/c_api/c_error_internal.h"
#include "weightloom/c_api/c_handles_internal.h"
#include "weightloom/c_api/c_structs_internal.h"
#include "weightloom/execute/budget.h"
#include "weightloom/execute/convert.h"
#include "weightloom/execute/load.h"

namespace weightloom::c_api {
namespace {

[[noreturn]] void cancel() { throw Error(ErrorCode::cancelled, "a callback asked to stop"); }

RunOptions parse_run(const wl_run_options& options) {
  RunOptions run;
  run.threads = threads_or_default(options.threads);
  if (options.memory_budget_bytes < 0) {
    throw Error(ErrorCode::usage,
                fmt::format("options.memory_budget_bytes is {}", options.memory_budget_bytes));
  }
  run.memory_budget_bytes = options.memory_budget_bytes != 0
                                ? options.memory_budget_bytes
                                : default_memory_budget(system_calls());
  if (options.progress != nullptr) {
    run.progress = [options](const Progress& progress) {
      const std::string tensor(progress.tensor);
      const wl_progress told = {sizeof(wl_progress), progress.bytes_done, progress.bytes_total,
                                tensor.c_str()};
      if (options.progress(&told, options.user) != 0) cancel();
    };
  }
  return run;
}

TargetComplete parse_complete(const wl_run_options& options) {
  if (options.complete == nullptr) return {};
  return [options](size_t index) {
    if (options.complete(static_cast<int64_t>(index), options.user) != 0) cancel();
  };
}

OutputOptions parse_output(const wl_output_options& options) {
  OutputOptions output;
  if (options.max_shard_bytes < 0) {
    throw Error(ErrorCode::usage,
                fmt::format("output.max_shard_bytes is {}", options.max_shard_bytes));
  }
  if (options.max_shard_bytes > 0) {
    output.max_shard_bytes = options.max_shard_bytes;
    output.max_shard_given = true;
  }
  if (options.layout_from != nullptr) output.layout_from = options.layout_from;
  output.overwrite = options.overwrite != 0;
  output.resume = options.resume != 0;
  output.checksums = options.checksums != 0;
  return output;
}

std::vector<std::span<std::byte>> parse_buffers(const CopyProgram& program,
                                                const wl_buffer* buffers, size_t count) {
  if (count != program.targets().size()) {
    throw Error(ErrorCode::usage, fmt::format("{} buffers are given, but the plan has {} targets",
                                              count, program.targets().size()));
  }
  if (count > 0) require(buffers, "buffers");
  std::vector<std::span<std::byte>> spans;
  for (size_t i = 0; i < count; ++i) {
    const wl_buffer& buffer = buffers[i];
    const ProgramTarget& target = program.targets()[i];
    if (buffer.size_bytes != target.size_bytes ||
        (buffer.data == nullptr && buffer.size_bytes > 0)) {
      throw Error(ErrorCode::usage,
                  fmt::format("buffer {} is {} of {} bytes, but target '{}' needs {}", i,
                              buffer.data == nullptr ? "NULL" : "memory", buffer.size_bytes,
                              target.name, target.size_bytes));
    }
    spans.emplace_back(static_cast<std::byte*>(buffer.data),
                       static_cast<size_t>(buffer.size_bytes));
  }
  return spans;
}

void refuse_refused(const wl_plan& plan) {
  if (!plan.conversion.is_refused(plan.lenient)) return;
  throw refusal_of(plan.conversion.findings, plan.lenient);
}

void fill_statistics(wl_statistics* statistics, int64_t bytes_read, int64_t bytes_written) {
  if (statistics == nullptr) return;
  fill_struct(statistics, {sizeof(wl_statistics), bytes_read, bytes_written}, "statistics");
}

/// Before work, so that no run is lost over it.
void check_statistics(const wl_statistics* statistics) {
  if (statistics != nullptr) checked_struct_size(statistics, "statistics");
}

}  // namespace
}  // namespace weightloom::c_api

using namespace weightloom;

wl_status wl_plan_load_into(const wl_plan* plan, const wl_buffer* buffers, size_t count,
                            const wl_run_options* options, wl_statistics* statistics,
                            wl_error** error) {
  return c_api::guarded(error, [&] {
    c_api::require(plan, "plan");
    c_api::check_statistics(statistics);
    const auto given = c_api::read_struct(options, WL_RUN_OPTIONS_DEFAULT, "options");
    const LoadOptions load = {c_api::parse_run(given), c_api::parse_complete(given)};
    c_api::refuse_refused(*plan);
    const CopyProgram& program = plan->conversion.program;
    const auto spans = c_api::parse_buffers(program, buffers, count);
    const RunStatistics done = load_into(system_calls(), program, spans, load);
    c_api::fill_statistics(statistics, done.bytes_read, done.bytes_written);
  });
}

wl_status wl_plan_convert(const wl_plan* plan, const char* destination,
                          const wl_output_options* output, const wl_run_options* options,
                          wl_statistics* statistics, wl_error** error) {
  return c_api::guarded(error, [&] {
    c_api::require(plan, "plan");
    c_api::require(destination, "destination");
    c_api::check_statistics(statistics);
    const auto out =
        c_api::parse_output(c_api::read_struct(output, WL_OUTPUT_OPTIONS_DEFAULT, "output"));
    const auto run =
        c_api::parse_run(c_api::read_struct(options, WL_RUN_OPTIONS_DEFAULT, "options"));
    const ConvertReport done = convert(system_calls(), *plan->source, plan->conversion,
                                       plan->lenient, destination, out, run);
    c_api::fill_statistics(statistics, done.bytes_read, done.bytes_written);
  });
}
