#include "weightloom/cli/watched_run.h"

namespace weightloom::cli {

WatchedRun::WatchedRun(const Syscalls& calls, const Terminal& err, const RunFlags& flags,
                       const PrintFlags& print)
    : bar_(calls, err), options_(flags.run_options(calls)) {
  options_.stop = interrupt_.token();
  if (print.quiet || print.json) return;
  options_.progress = [this](const Progress& progress) { bar_.update(progress); };
}

}  // namespace weightloom::cli
