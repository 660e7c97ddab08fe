#include "ops/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace holdfast {
namespace {

TEST(ThreadPoolTest, EveryTaskRunsOnceWhateverTheNumbers) {
  for (int n_threads : {1, 2, 3, 8}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (int64_t n_tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(n_tasks);
      pool.For(n_tasks, [&](int64_t task, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, n_threads);
        ++runs[task];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPoolTest, ManyShortLoopsSeeEachOthersWrites) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int loop = 0; loop < 20000; ++loop) {
    pool.For(64, [&](int64_t task, int) { values[task] += values[task] == loop ? 1 : 1000000; });
  }
  for (int64_t value : values) EXPECT_EQ(value, 20000);
}

TEST(ThreadPoolTest, WorkersThatFellAsleepComeBack) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  for (int loop = 0; loop < 5; ++loop) {
    pool.For(16, [&](int64_t, int) { ++sum; });
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  EXPECT_EQ(sum, 80);
}

}  // namespace
}  // namespace holdfast
