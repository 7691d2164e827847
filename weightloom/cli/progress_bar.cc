#include "weightloom/cli/progress_bar.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/execute/budget.h"

namespace weightloom::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kBarColumns = 20;
constexpr milliseconds kRedraw{100};
constexpr milliseconds kLine{10'000};
constexpr const char* kClearLine = "\r\x1b[K";

double fraction_of(const Progress& progress) {
  if (progress.bytes_total <= 0) return 1;
  const double done = static_cast<double>(progress.bytes_done);
  return std::clamp(done / static_cast<double>(progress.bytes_total), 0.0, 1.0);
}

std::string bar_of(double fraction) {
  const auto full = static_cast<size_t>(fraction * kBarColumns);
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(kBarColumns - full, '.'));
}

std::string time_left(const ProgressState& state) {
  const int64_t moved = state.progress.bytes_done - state.resumed_bytes;
  if (moved <= 0 || state.seconds <= 0) return "-";
  const double rate = static_cast<double>(moved) / state.seconds;
  const auto left = static_cast<double>(state.progress.bytes_total - state.progress.bytes_done);
  return format_duration(std::llround(left / rate));
}

}  // namespace

std::string format_duration(int64_t seconds) {
  const int64_t minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, seconds % 60);
}

std::string format_rate(int64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  return format_byte_size(std::llround(static_cast<double>(bytes) / seconds)) + "/s";
}

std::string progress_line(const ProgressState& state, int columns) {
  const Progress& progress = state.progress;
  const double fraction = fraction_of(progress);
  const std::string line = fmt::format(
      "{:3}% {}  {:>10} of {}  {:>12}  {:>7} left  {} memory  {}", static_cast<int>(fraction * 100),
      bar_of(fraction), format_byte_size(progress.bytes_done),
      format_byte_size(progress.bytes_total),
      format_rate(progress.bytes_done - state.resumed_bytes, state.seconds), time_left(state),
      format_byte_size(state.resident_bytes), printable(progress.tensor));
  return std::string(first_columns(line, columns));
}

ProgressBar::ProgressBar(const Syscalls& calls, const Terminal& terminal) noexcept
    : calls_(calls), terminal_(terminal) {}

ProgressBar::~ProgressBar() {
  if (drawn_) write_stderr(kClearLine);
}

void ProgressBar::update(const Progress& progress) {
  const auto now = Clock::now();
  const auto interval = terminal_.interactive ? kRedraw : kLine;
  if (!start_) {
    start_ = now;
    next_ = now + interval;
    resumed_bytes_ = progress.bytes_done;
    return;
  }
  if (now < next_) return;
  next_ = now + interval;
  const std::chrono::duration<double> elapsed = now - *start_;
  const std::string line =
      progress_line({progress, elapsed.count(), resumed_bytes_, resident_bytes(calls_)},
                    terminal_.interactive ? terminal_.columns - 1 : 200);
  drawn_ = terminal_.interactive;
  write_stderr(drawn_ ? kClearLine + line : line + "\n");
}

}  // namespace weightloom::cli
