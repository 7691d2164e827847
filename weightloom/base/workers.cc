#include "weightloom/base/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"

namespace weightloom {
namespace {

/// True for the word of a worker that gave up because another one had failed, or was told to.
bool is_cancellation(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::cancelled;
  } catch (...) {
    return false;
  }
}

class Crew {
 public:
  Crew(size_t first, size_t count, std::stop_token stop,
       const std::function<void(size_t, size_t)>& work)
      : next_(first), count_(count), stop_(std::move(stop)), work_(work) {}

  void run(size_t worker) noexcept {
    try {
      for (size_t item = next_++; item < count_ && !failed_; item = next_++) {
        if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "cancelled by the caller");
        work_(worker, item);
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void fail(std::exception_ptr failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true) || is_cancellation(failure_)) failure_ = std::move(failure);
  }

  std::atomic<size_t> next_;
  const size_t count_;
  const std::stop_token stop_;
  const std::function<void(size_t, size_t)>& work_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void for_each_item(int threads, size_t first, size_t count, std::stop_token stop,
                   const std::function<void(size_t worker, size_t item)>& work) {
  Crew crew(first, count, std::move(stop), work);
  const size_t items = count > first ? count - first : 0;
  const size_t workers = std::min(static_cast<size_t>(std::max(threads, 1)), items);
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < workers; ++i) others.emplace_back([&crew, i] { crew.run(i); });
    } catch (const std::system_error&) {
      // The system grants no more threads; those there are do the work.
    }
    crew.run(0);
  }
  crew.rethrow();
}

void for_all_items(int threads, size_t count,
                   const std::function<void(size_t worker, size_t item)>& work) {
  std::vector<std::exception_ptr> failures(count);
  for_each_item(threads, 0, count, {}, [&](size_t worker, size_t item) {
    try {
      work(worker, item);
    } catch (...) {
      failures[item] = std::current_exception();
    }
  });
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace weightloom
