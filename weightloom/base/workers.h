// Worker threads over a list of items. Plain threads, not a task pool: the items wait for disks, so
// more threads than cores can pay.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Calls work(worker, item) once for each item in [first, count), handed out in ascending order to
/// `threads` workers numbered from 0; with one thread, here and in order. The first exception stops
/// the others and is thrown again.
/// Errors: cancelled if `stop` was requested.
void for_each_item(int threads, size_t first, size_t count, std::stop_token stop,
                   const std::function<void(size_t worker, size_t item)>& work);

/// Calls work(worker, item) once for each item in [0, count), whatever fails, and then throws what
/// the first item that failed threw: equal trouble gives equal errors on any number of threads.
void for_all_items(int threads, size_t count,
                   const std::function<void(size_t worker, size_t item)>& work);

}  // namespace weightloom
