#include "engine/background_thread.h"

#include <utility>

#include "base/thread_activity.h"

namespace holdfast {

BackgroundThread::BackgroundThread(std::string name)
    : thread_([this, name = std::move(name)] { Run(name); }) {}

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void BackgroundThread::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_all();
}

void BackgroundThread::Run(const std::string& name) {
  ThreadActivity activity(name);
  std::unique_lock lock(mutex_);
  for (;;) {
    activity.Set("waiting for work");
    wake_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    activity.Set("working");
    task();
    lock.lock();
  }
}

}  // namespace holdfast
