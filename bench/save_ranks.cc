// Loads into each of four ranks what it holds of a hub checkpoint in the runtime layout, saves it
// as a hub checkpoint, and prints what the save took: a parallel save, or the gathering one.
// usage: save_ranks SRC DST --mesh AXES [--placements FILE | --tp-plan auto|FILE]
//                   [--budget BYTES] [--threads N] [--gather]
// --budget and --threads are of one rank. Prints one JSON object: seconds (of planning and saving,
// and of each), bytes, sent_bytes of all ranks; and of the process that held most: budget_bytes,
// state_bytes, working_bytes (told by the save), extra_bytes (resident at the peak of planning and
// saving, less the state); and cpu_seconds of the first rank's process.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "bench_ranks.h"
#include "gather_items.h"
#include "weightloom/base/byte_size.h"
#include "weightloom/base/file.h"
#include "weightloom/comm/parallel_save.h"
#include "weightloom/weightloom.h"

namespace weightloom {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFileBytes = int64_t{1} << 30;  // as the input's files

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Arguments {
  std::vector<std::string> paths;  // the source's, the destination's
  Selection selection;
  RunOptions run{1, int64_t{256} << 20, {}, {}};
  bool gather = false;
};

/// Takes a flag with a value; false if it is none.
bool take(Arguments& arguments, std::string_view flag, const std::string& value) {
  if (flag == "--mesh") {
    arguments.selection.meshes = MeshSet::parse(value);
  } else if (flag == "--placements") {
    arguments.selection.placements = read_placements(system_calls(), value);
  } else if (flag == "--tp-plan") {
    arguments.selection.tp_plan = value;
  } else if (flag == "--budget") {
    arguments.run.memory_budget_bytes = parse_byte_size(value);
  } else if (flag == "--threads") {
    arguments.run.threads = std::atoi(value.c_str());
  } else {
    return false;
  }
  return true;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.selection.to = Side::runtime;
  for (int i = 1; i < argc; ++i) {
    if (i + 1 < argc && take(arguments, argv[i], argv[i + 1])) {
      ++i;
    } else if (std::string_view(argv[i]) == "--gather") {
      arguments.gather = true;
    } else {
      arguments.paths.emplace_back(argv[i]);
    }
  }
  if (arguments.paths.size() != 2 || !arguments.selection.meshes) {
    throw Error(ErrorCode::usage, "usage: save_ranks SRC DST --mesh AXES");
  }
  return arguments;
}

/// From here on the process's peak is counted anew.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

int64_t peak_resident_bytes() {
  const std::string status = [] {
    std::ifstream file("/proc/self/status");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  const size_t at = status.find("VmHWM:");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + 6) * 1024;
}

/// Of all threads of this process, in the kernel too.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What a rank holds, and the program whose targets it holds parts of.
struct State {
  Conversion whole;
  LoadedTensors memory;
  ShardedState described;
  std::vector<LocalTensorBytes> local;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const LocalTensorBytes& tensor : local) sum += std::ssize(tensor.bytes);
    return sum;
  }
};

State load_part(const Arguments& arguments, int64_t rank) {
  const std::string& path = arguments.paths[0];
  const Checkpoint source = Checkpoint::open(system_calls(), path);
  State state;
  state.whole = plan_conversion(system_calls(), source, arguments.selection, Registry::built_in());
  if (state.whole.is_refused(false)) throw refusal_of(state.whole.findings, false);
  const Conversion mine = for_ranks(state.whole, std::span(&rank, 1));
  state.memory = load(system_calls(), mine.program, {arguments.run, {}});
  state.described = {*for_all_ranks(state.whole).manifest,
                     {{"config.json", read_whole_file(system_calls(), path + "/config.json")}}};
  for (size_t i = 0; i < mine.program.targets().size(); ++i) {
    state.local.push_back({mine.program.targets()[i].name, state.memory.tensors[i]});
  }
  return state;
}

/// What a rank's save did.
struct Saved {
  double plan_seconds = 0;
  double save_seconds = 0;
  int64_t bytes = 0;
  int64_t sent_bytes = 0;
  int64_t working_bytes = 0;
};

Saved save_in_parallel(ProcessGroup& group, const Arguments& arguments, const State& state) {
  ParallelSaveOptions options;
  options.selection.to = Side::hub;
  options.output.max_shard_bytes = kFileBytes;
  options.output.max_shard_given = true;
  options.run = arguments.run;
  const auto start = Clock::now();
  ParallelSave save(group, state.described, Registry::built_in(), options);
  const double planning = seconds_since(start);
  const auto begin = Clock::now();
  const ParallelSaveReport report = save.save(state.local, arguments.paths[1]);
  return {planning, seconds_since(begin), report.target_bytes, report.bytes_sent,
          report.peak_working_bytes};
}

/// Half of the budget holds the parts of a bucket as they come, half what they are put together to.
Saved save_gathered(ProcessGroup& group, const Arguments& arguments, const State& state) {
  HFSaveOptions options;
  options.bucket_bytes = arguments.run.memory_budget_bytes / 2;
  options.max_shard_bytes = kFileBytes;
  options.texts = state.described.texts;
  const auto start = Clock::now();
  GroupCache groups(group);
  const auto items = items_of(state.whole, group.rank(), state.memory.tensors);
  const double planning = seconds_since(start);
  const auto begin = Clock::now();
  const HFSaveReport report = save_hf_tensors(groups, items, arguments.paths[1], options);
  return {planning, seconds_since(begin), report.target_bytes, 0, 0};
}

/// Of all ranks, where they share a process; else of this one.
int64_t in_process(ProcessGroup& group, int64_t of_rank) {
  return kRanksShareProcess ? group.all_reduce(Reduction::sum, of_rank) : of_rank;
}

void report(ProcessGroup& group, const Arguments& arguments, const Saved& saved,
            int64_t state_bytes, double process_cpu_seconds) {
  const auto most = [&](int64_t of_process) {
    return group.all_reduce(Reduction::max, of_process);
  };
  const int64_t budget = in_process(group, arguments.run.memory_budget_bytes);
  const int64_t state = in_process(group, state_bytes);
  const int64_t working = most(in_process(group, saved.working_bytes));
  const int64_t extra = most(peak_resident_bytes() - state);
  const int64_t sent = group.all_reduce(Reduction::sum, saved.sent_bytes);
  const int64_t most_state = most(state);
  if (group.rank() != 0) return;
  fmt::print(R"({{"seconds": {:.4f}, "plan_seconds": {:.4f}, "save_seconds": {:.4f}, )"
             R"("bytes": {}, "sent_bytes": {}, "budget_bytes": {}, "state_bytes": {}, )"
             R"("working_bytes": {}, "extra_bytes": {}, "cpu_seconds": {:.2f}}})"
             "\n",
             saved.plan_seconds + saved.save_seconds, saved.plan_seconds, saved.save_seconds,
             saved.bytes, sent, budget, most_state, working, extra, process_cpu_seconds);
}

void save_and_report(ProcessGroup& group, const Arguments& arguments) {
  const State state = load_part(arguments, group.rank());
  group.barrier();
  if (group.rank() == 0 || !kRanksShareProcess) reset_peak();
  group.barrier();
  const double cpu_before = cpu_seconds();
  const Saved saved = arguments.gather ? save_gathered(group, arguments, state)
                                       : save_in_parallel(group, arguments, state);
  report(group, arguments, saved, state.bytes(), cpu_seconds() - cpu_before);
}

}  // namespace
}  // namespace weightloom

int main(int argc, char** argv) {
  try {
    const auto arguments = weightloom::parse(argc, argv);
    weightloom::on_ranks(
        [&](weightloom::ProcessGroup& group) { weightloom::save_and_report(group, arguments); });
    return 0;
  } catch (const weightloom::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
