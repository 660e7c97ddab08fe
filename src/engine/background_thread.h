#ifndef HOLDFAST_ENGINE_BACKGROUND_THREAD_H_
#define HOLDFAST_ENGINE_BACKGROUND_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace holdfast {

// A thread that runs what it is given, in order. Any thread may give it something.
class BackgroundThread {
 public:
  explicit BackgroundThread(std::string name);
  // What has not begun is dropped.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void Post(std::function<void()> task);

 private:
  void Run(const std::string& name);

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_BACKGROUND_THREAD_H_
