#include "weightloom/base/workers.h"

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weightloom/base/error_testing.h"

namespace weightloom {
namespace {

TEST(WorkersTest, OneThreadWorksHereAndInOrder) {
  std::vector<size_t> items;
  const auto here = std::this_thread::get_id();
  for_each_item(1, 2, 6, {}, [&](size_t worker, size_t item) {
    EXPECT_EQ(worker, 0U);
    EXPECT_EQ(std::this_thread::get_id(), here);
    items.push_back(item);
  });
  EXPECT_EQ(items, (std::vector<size_t>{2, 3, 4, 5}));
}

TEST(WorkersTest, ManyThreadsDoEachItemOnce) {
  std::vector<std::atomic<int>> times(1000);
  std::atomic<size_t> largest_worker = 0;
  for_each_item(4, 10, times.size(), {}, [&](size_t worker, size_t item) {
    ++times[item];
    for (size_t seen = largest_worker; worker > seen;) {
      if (largest_worker.compare_exchange_weak(seen, worker)) break;
    }
  });
  for (size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], i < 10 ? 0 : 1);
  EXPECT_LT(largest_worker, 4U);
}

TEST(WorkersTest, NothingToDoCallsNothing) {
  for_each_item(4, 0, 0, {}, [](size_t, size_t) { FAIL(); });
  for_each_item(4, 5, 5, {}, [](size_t, size_t) { FAIL(); });
  for_each_item(4, 6, 5, {}, [](size_t, size_t) { FAIL(); });
}

TEST(WorkersTest, NoThreadsMeansOne) {
  int items = 0;
  for_each_item(0, 0, 3, {}, [&](size_t, size_t) { ++items; });
  EXPECT_EQ(items, 3);
}

TEST(WorkersTest, AnExceptionStopsTheOthersAndComesOut) {
  for (int threads : {1, 4}) {
    std::atomic<int> started = 0;
    try {
      for_each_item(threads, 0, 1'000'000, {}, [&](size_t, size_t item) {
        ++started;
        if (item == 3) throw std::runtime_error("item 3");
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "item 3");
    }
    EXPECT_LT(started, 1'000'000);
  }
}

TEST(WorkersTest, AStopRequestIsTheErrorCancelled) {
  for (int threads : {1, 4}) {
    std::stop_source source;
    const auto error = refusal_of([&] {
      for_each_item(threads, 0, 1'000'000, source.get_token(), [&](size_t, size_t item) {
        if (item == 5) source.request_stop();
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace weightloom
