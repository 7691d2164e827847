// What planning for the ranks of a mesh is held against: opening a folder and planning its whole
// tensors, and emitting every region of every rank once, rank by rank, without counting what it
// costs to move them.
// usage: plan_ranks SRC --mesh AXES --placements FILE [--to-runtime]
// Prints:  SUM s: WHOLE s for the whole, EMIT s to emit REGIONS regions of RANKS ranks, peak PEAK
// bytes
#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

#include "weightloom/execute/budget.h"
#include "weightloom/weightloom.h"

namespace weightloom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Arguments {
  std::string source;
  Selection selection;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--mesh" && i + 1 < argc) {
      arguments.selection.meshes = MeshSet::parse(argv[++i]);
    } else if (word == "--placements" && i + 1 < argc) {
      arguments.selection.placements = read_placements(system_calls(), argv[++i]);
    } else if (word == "--to-runtime") {
      arguments.selection.to = Side::runtime;
    } else {
      arguments.source = word;
    }
  }
  if (arguments.source.empty() || !arguments.selection.meshes) {
    throw Error(ErrorCode::usage, "usage: plan_ranks SRC --mesh AXES --placements FILE");
  }
  return arguments;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t emit(const Conversion& plan) {
  int64_t regions = 0;
  for (int64_t rank = 0; rank < plan.spread->meshes.size(); ++rank) {
    const std::array<int64_t, 1> ranks = {rank};
    regions += program_of_ranks(plan.program, *plan.spread, ranks).program.region_count();
  }
  return regions;
}

void plan_and_report(const Arguments& arguments) {
  const auto start = Clock::now();
  const Checkpoint source = Checkpoint::open(system_calls(), arguments.source, default_threads());
  const Conversion plan = plan_conversion(system_calls(), source, arguments.selection,
                                          Registry::built_in(), default_threads());
  if (plan.is_refused(false)) throw refusal_of(plan.findings, false);
  const double whole = seconds_since(start);
  const auto begin = Clock::now();
  const int64_t regions = emit(plan);
  const double emission = seconds_since(begin);
  fmt::print(
      "{:.3f} s: {:.3f} s for the whole, {:.3f} s to emit {} regions of {} ranks, peak {} bytes\n",
      whole + emission, whole, emission, regions, plan.spread->meshes.size(),
      peak_resident_bytes());
}

}  // namespace
}  // namespace weightloom

int main(int argc, char** argv) {
  try {
    weightloom::plan_and_report(weightloom::parse(argc, argv));
    return 0;
  } catch (const weightloom::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
