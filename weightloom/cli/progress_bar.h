// The progress of long work, on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "weightloom/base/syscalls.h"
#include "weightloom/cli/terminal.h"
#include "weightloom/execute/progress.h"

namespace weightloom::cli {

/// What one line of progress says.
struct ProgressState {
  Progress progress;
  double seconds = 0;         // since the first call
  int64_t resumed_bytes = 0;  // done before it: they say nothing about speed
  int64_t resident_bytes = 0;
};
/// ` 45% [#########...........]   1.53 GiB of 3.40 GiB   1.20 GiB/s     0:02 left  312 MiB memory
/// NAME` on one line, cut to `columns`; the fields that change keep their places.
std::string progress_line(const ProgressState& state, int columns);
/// "0:07", "12:30", "1:02:03".
std::string format_duration(int64_t seconds);
/// "1.20 GiB/s"; "-" without time.
std::string format_rate(int64_t bytes, double seconds);

/// Draws on a terminal ten times a second at most; elsewhere it writes a line every ten seconds.
/// Not thread safe: Progress calls do not overlap.
class ProgressBar {
 public:
  ProgressBar(const Syscalls& calls, const Terminal& terminal) noexcept;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Leaves an empty line where the bar was.
  ~ProgressBar();

  void update(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  const Syscalls& calls_;
  Terminal terminal_;
  std::optional<Clock::time_point> start_;
  Clock::time_point next_;
  int64_t resumed_bytes_ = 0;
  bool drawn_ = false;
};

}  // namespace weightloom::cli
