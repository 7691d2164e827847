// A long run on a thread of its own, while the thread that called from Python waits without the
// interpreter's lock, hears signals, and tells Python how the run goes. So workers never wait for
// the interpreter, and Ctrl-C stops a run at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include "weightloom/execute/progress.h"

namespace weightloom::python {

/// A number of bytes, or how people write it; nothing: the library's own.
using Budget = std::optional<std::variant<int64_t, std::string>>;

/// What of a run Python wants to hear, and how the run is made.
class Watch {
 public:
  /// `progress`: None, or called with (bytes_done, bytes_total, tensor) from the waiting thread.
  /// `complete`: called there with the places of targets, in the order in which they are complete.
  Watch(std::optional<int> threads, const Budget& memory_budget, nanobind::object progress,
        std::function<void(size_t)> complete = {});

  /// For the library: the options of the run, and what it calls when a target is complete.
  const RunOptions& options() const noexcept { return options_; }
  void note_complete(size_t target);

  /// Runs `work` and gives its result. What `work` throws is thrown; before it, what a callback
  /// or a signal handler raised, after which the run was stopped.
  template <typename Work>
  auto run(Work work) {
    std::optional<decltype(work())> result;
    run_watched([&] { result.emplace(work()); });
    return *std::move(result);
  }

 private:
  struct News {
    bool done = false;
    std::optional<std::pair<Progress, std::string>> progress;
    std::vector<size_t> complete;
  };

  void run_watched(const std::function<void()>& work);
  void watch();
  News wait_for_news();
  void tell(const News& news);
  void finish(std::exception_ptr failure) noexcept;

  nanobind::object progress_callback_;
  std::function<void(size_t)> complete_callback_;
  std::stop_source stop_;
  RunOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
  std::exception_ptr failure_;
};

}  // namespace weightloom::python
