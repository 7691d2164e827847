// A loop over independent items on a bounded number of threads. Private to this room.
#pragma once

#include <cstddef>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

namespace weightloom {

/// Calls run(i) for each i in [0, count), on up to `threads` threads; one thread goes in order.
template <class Run>
void for_each_index(size_t count, int threads, const Run& run) {
  if (threads <= 1 || count <= 1) {
    for (size_t i = 0; i < count; ++i) run(i);
    return;
  }
  tbb::task_arena arena(threads);
  arena.execute([&] { tbb::parallel_for(size_t{0}, count, run); });
}

}  // namespace weightloom
