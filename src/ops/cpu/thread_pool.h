#ifndef HOLDFAST_OPS_CPU_THREAD_POOL_H_
#define HOLDFAST_OPS_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace holdfast {

// Threads that share the tasks of one loop at a time.
//
// A loop is opened, tasks are handed out one by one, and it closes when all are done. Workers spin
// for a short while between loops, then sleep; one that was asleep or descheduled while a loop ran
// is not waited for, so an oversubscribed machine costs no barrier. Which thread runs which task
// must not matter to the result.
class ThreadPool {
 public:
  // `n_threads` >= 1 counts the caller of For().
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(task, thread) for every task in [0, n_tasks), thread in [0, n_threads()), and returns
  // when all have ended. Not reentrant; one caller at a time.
  template <typename Fn>
  void For(int64_t n_tasks, const Fn& fn) {
    Run(n_tasks, &fn, [](const void* f, int64_t task, int thread) {
      (*static_cast<const Fn*>(f))(task, thread);
    });
  }

 private:
  using Call = void (*)(const void* fn, int64_t task, int thread);

  void Run(int64_t n_tasks, const void* fn, Call call);
  void RunTasks(int thread);
  void Work(int thread);

  // generation << 17 | open << 16 | workers inside.
  static constexpr uint64_t kOpen = uint64_t{1} << 16;
  static constexpr uint64_t kGeneration = uint64_t{1} << 17;
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int64_t> next_task_{0};
  const void* fn_ = nullptr;
  Call call_ = nullptr;
  int64_t n_tasks_ = 0;
  int64_t take_ = 1;  // tasks taken at a time
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_THREAD_POOL_H_
