// What a long run tells its caller, and how the caller stops it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string_view>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// How far a run is.
struct Progress {
  int64_t bytes_done = 0;   ///< of targets, resumed ones included
  int64_t bytes_total = 0;  ///< of targets
  std::string_view tensor;  ///< one that was just worked on
};

/// Called after each tile, from worker threads, never from two at once. May throw to stop the run.
using ProgressCallback = std::function<void(const Progress&)>;

/// How a run is made.
struct RunOptions {
  int threads = 4;                                 ///< 1: synchronous, in order
  int64_t memory_budget_bytes = int64_t{1} << 30;  ///< staging and tiles of all workers
  ProgressCallback progress;                       ///< may be empty
  std::stop_token stop;  ///< the run ends with Error(cancelled) soon after a request
};

/// What a run did.
struct RunStatistics {
  int64_t bytes_read = 0;          ///< from files
  int64_t bytes_written = 0;       ///< of targets
  int64_t peak_working_bytes = 0;  ///< tiles and staging of all workers at once
  /// Target → values that were finite in the source and that its cast made infinite; targets
  /// without such a value are left out. `Finding`s say it in words.
  std::map<int32_t, int64_t> not_finite;
};

}  // namespace weightloom
