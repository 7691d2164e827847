// A long run as its user sees it: Ctrl-C stops it, and a progress bar shows how far it is.
#pragma once

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/command_options.h"
#include "weightloom/cli/interrupt.h"
#include "weightloom/cli/progress_bar.h"
#include "weightloom/cli/terminal.h"
#include "weightloom/execute/progress.h"

namespace weightloom::cli {

/// Lives as long as the run. At most one lives at a time.
class WatchedRun {
 public:
  /// No bar with --quiet and --json.
  WatchedRun(const Syscalls& calls, const Terminal& err, const RunFlags& flags,
             const PrintFlags& print);
  WatchedRun(const WatchedRun&) = delete;
  WatchedRun& operator=(const WatchedRun&) = delete;

  /// What to give the run. Borrows this.
  const RunOptions& options() const noexcept { return options_; }

 private:
  InterruptWatch interrupt_;
  ProgressBar bar_;
  RunOptions options_;
};

}  // namespace weightloom::cli
