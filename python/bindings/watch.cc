#include "watch.h"

#include <chrono>

#include <nanobind/stl/string.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/base/error.h"
#include "weightloom/execute/budget.h"

namespace nb = nanobind;

namespace weightloom::python {
namespace {

// How long a signal may go unheard.
constexpr std::chrono::milliseconds kPatience{40};

int64_t bytes_of(const Budget& budget) {
  if (!budget) return default_memory_budget(system_calls());
  const auto* const text = std::get_if<std::string>(&*budget);
  return text != nullptr ? parse_byte_size(*text) : std::get<int64_t>(*budget);
}

}  // namespace

Watch::Watch(std::optional<int> threads, const Budget& memory_budget, nb::object progress,
             std::function<void(size_t)> complete)
    : progress_callback_(std::move(progress)), complete_callback_(std::move(complete)) {
  options_.threads = threads.value_or(default_threads());
  options_.memory_budget_bytes = bytes_of(memory_budget);
  options_.stop = stop_.get_token();
  if (progress_callback_.is_none()) return;
  options_.progress = [this](const Progress& now) {
    const std::lock_guard lock(mutex_);
    news_.progress.emplace(now, std::string(now.tensor));
  };
}

void Watch::note_complete(size_t target) {
  {
    const std::lock_guard lock(mutex_);
    news_.complete.push_back(target);
  }
  changed_.notify_one();
}

void Watch::run_watched(const std::function<void()>& work) {
  std::exception_ptr interruption;
  {
    const nb::gil_scoped_release released;
    const std::jthread worker([&] {
      try {
        work();
        finish(nullptr);
      } catch (...) {
        finish(std::current_exception());
      }
    });
    try {
      watch();
    } catch (...) {
      interruption = std::current_exception();
      stop_.request_stop();
    }
  }
  if (interruption) std::rethrow_exception(interruption);
  if (failure_) std::rethrow_exception(failure_);
}

void Watch::watch() {
  while (true) {
    const News news = wait_for_news();
    tell(news);
    if (news.done) return;
  }
}

Watch::News Watch::wait_for_news() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [this] { return news_.done || !news_.complete.empty(); });
  News news = std::exchange(news_, News{});
  news_.done = news.done;
  return news;
}

void Watch::tell(const News& news) {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  for (const size_t target : news.complete) complete_callback_(target);
  if (!news.progress || progress_callback_.is_none()) return;
  const auto& [now, tensor] = *news.progress;
  progress_callback_(now.bytes_done, now.bytes_total, tensor);
}

void Watch::finish(std::exception_ptr failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    news_.done = true;
  }
  changed_.notify_one();
}

}  // namespace weightloom::python
