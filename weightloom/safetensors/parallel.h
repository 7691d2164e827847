// A loop over independent items on a bounded number of threads. Private to this room.
//
// Plain threads, not a task pool: the items wait for disks, so more threads than cores can pay.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace weightloom {

/// Calls run(i) for each i in [0, count), on up to `threads` threads; one thread goes in order.
/// Errors: the first exception that a call throws, after all threads have stopped.
template <class Run>
void for_each_index(size_t count, int threads, const Run& run) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) run(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      auto wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
      for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // The system grants no more threads; those there are do the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace weightloom
