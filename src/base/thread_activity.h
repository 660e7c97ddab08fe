#ifndef HOLDFAST_BASE_THREAD_ACTIVITY_H_
#define HOLDFAST_BASE_THREAD_ACTIVITY_H_

#include <memory>
#include <string>

namespace holdfast {

// Says what the calling thread is doing, for the dump when something hangs. One per thread, on its
// stack; the name shows in top and gdb too (15 characters).
class ThreadActivity {
 public:
  explicit ThreadActivity(const std::string& name);
  ~ThreadActivity();
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

  // `what` must live as long as the process (a literal). Two relaxed stores.
  void Set(const char* what);

 private:
  struct Entry;
  friend std::string DescribeThreads();
  std::shared_ptr<Entry> entry_;
};

// One line for each thread of this process: id, name, what it said it does and for how long, and
// what the system knows of it (state, the kernel function it sleeps in).
std::string DescribeThreads();

}  // namespace holdfast

#endif  // HOLDFAST_BASE_THREAD_ACTIVITY_H_
