#include "ops/cpu/thread_pool.h"

#include <algorithm>

namespace holdfast {
namespace {

// About 50 us: longer than the serial stretches between the loops of one decode step.
constexpr int kSpins = 4000;
// Loops over many small tasks are handed out in pieces of about this many for each thread.
constexpr int64_t kTakesPerThread = 16;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  for (int i = 1; i < n_threads; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  state_.fetch_add(kGeneration);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t n_tasks, const void* fn, Call call) {
  if (n_tasks <= 1 || workers_.empty()) {
    for (int64_t task = 0; task < n_tasks; ++task) call(fn, task, 0);
    return;
  }
  fn_ = fn;
  call_ = call;
  n_tasks_ = n_tasks;
  take_ = std::max<int64_t>(n_tasks / (kTakesPerThread * n_threads()), 1);
  next_task_.store(0, std::memory_order_relaxed);
  const uint64_t generation = state_.load(std::memory_order_relaxed) / kGeneration + 1;
  state_.store(generation * kGeneration + kOpen, std::memory_order_release);
  state_.notify_all();
  RunTasks(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  while (state_.load(std::memory_order_acquire) % kOpen != 0) Pause();
}

void ThreadPool::RunTasks(int thread) {
  for (;;) {
    const int64_t begin = next_task_.fetch_add(take_, std::memory_order_relaxed);
    if (begin >= n_tasks_) return;
    const int64_t end = std::min(begin + take_, n_tasks_);
    for (int64_t task = begin; task < end; ++task) call_(fn_, task, thread);
  }
}

void ThreadPool::Work(int thread) {
  uint64_t seen = 0;  // generation of the last loop this worker took part in
  int spins = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    uint64_t state = state_.load(std::memory_order_acquire);
    if ((state & kOpen) != 0 && state / kGeneration != seen) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
        seen = state / kGeneration;
        RunTasks(thread);
        state_.fetch_sub(1, std::memory_order_release);
        spins = 0;
      }
      continue;
    }
    if (++spins < kSpins) {
      Pause();
      continue;
    }
    state_.wait(state, std::memory_order_acquire);
    spins = 0;
  }
}

}  // namespace holdfast
