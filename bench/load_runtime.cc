// Loads a checkpoint into memory in the runtime layout, or what a rank holds of it in the source's
// layout (with --to-runtime in the runtime layout too), and prints what it took.
// usage: load_runtime SRC [--mesh AXES --rank N [--placements FILE] [--to-runtime]]
//                     [--budget BYTES] [--threads N]
// Prints:  SECONDS s, BYTES bytes, GiB/s, peak PEAK bytes resident, READ bytes read, SECONDS s to
// plan
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/execute/budget.h"
#include "weightloom/weightloom.h"

namespace weightloom {
namespace {

struct Arguments {
  std::string source;
  Selection selection;
  int64_t rank = 0;
  bool to_runtime = false;
  RunOptions run;
};

/// Takes a flag of the selection; false if it is none.
bool take_selection(Arguments& arguments, std::string_view flag, const std::string& value) {
  if (flag == "--mesh") {
    arguments.selection.meshes = MeshSet::parse(value);
  } else if (flag == "--placements") {
    arguments.selection.placements = read_placements(system_calls(), value);
  } else if (flag == "--rank") {
    arguments.rank = std::atoll(value.c_str());
  } else {
    return false;
  }
  return true;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.run.threads = default_threads();
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--budget" && i + 1 < argc) {
      arguments.run.memory_budget_bytes = parse_byte_size(argv[++i]);
    } else if (word == "--threads" && i + 1 < argc) {
      arguments.run.threads = std::atoi(argv[++i]);
    } else if (word == "--to-runtime") {
      arguments.to_runtime = true;
    } else if (i + 1 < argc && take_selection(arguments, word, argv[i + 1])) {
      ++i;
    } else {
      arguments.source = word;
    }
  }
  if (arguments.source.empty()) throw Error(ErrorCode::usage, "usage: load_runtime SRC");
  return arguments;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void load_and_report(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const Checkpoint source =
      Checkpoint::open(system_calls(), arguments.source, arguments.run.threads);
  Selection selection = arguments.selection;
  if (!selection.meshes || arguments.to_runtime) selection.to = Side::runtime;
  Conversion plan = plan_conversion(system_calls(), source, selection, Registry::built_in());
  if (plan.is_refused(false)) throw refusal_of(plan.findings, false);
  if (plan.spread) plan = for_ranks(std::move(plan), std::span(&arguments.rank, 1));
  const double planning = seconds_since(start);
  const LoadedTensors model = load(system_calls(), plan.program, {arguments.run, {}});
  const double seconds = seconds_since(start);
  const auto bytes = static_cast<double>(plan.program.target_bytes());
  fmt::print(
      "{:.4f} s, {} bytes, {:.2f} GiB/s, peak {} bytes resident, {} bytes read, {:.4f} s to plan\n",
      seconds, plan.program.target_bytes(), bytes / seconds / (1 << 30), peak_resident_bytes(),
      model.statistics.bytes_read, planning);
}

}  // namespace
}  // namespace weightloom

int main(int argc, char** argv) {
  try {
    weightloom::load_and_report(weightloom::parse(argc, argv));
    return 0;
  } catch (const weightloom::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
