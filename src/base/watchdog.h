#ifndef HOLDFAST_BASE_WATCHDOG_H_
#define HOLDFAST_BASE_WATCHDOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace holdfast {

// Notices work that makes no progress for too long. It cannot end it; whoever is called can fail
// what waits for it and say what every thread was doing.
class Watchdog {
 public:
  // `name` of the work, for how long it was silent, and DescribeThreads() of that moment. Called
  // from the watchdog's thread, once for each silence. Must not start or end watches.
  using OnStall = std::function<void(const std::string& name, std::chrono::milliseconds silent,
                                     const std::string& threads)>;

  // Something that must make progress, from Start() until it is destroyed.
  class Watch {
   public:
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    // Cheap; any thread.
    void Progress();
    // Nothing to do: silence is right until the next Progress().
    void Pause();

   private:
    friend class Watchdog;
    Watch(Watchdog* owner, std::string name, std::chrono::milliseconds bound);

    Watchdog* const owner_;
    const std::string name_;
    const std::chrono::milliseconds bound_;
    std::atomic<int64_t> last_ms_;  // of the clock; kPaused while paused
    bool reported_ = false;         // guarded by the owner's mutex
  };

  // Looks every `interval`.
  explicit Watchdog(OnStall on_stall,
                    std::chrono::milliseconds interval = std::chrono::milliseconds(500));
  // All watches must have ended.
  ~Watchdog();

  std::unique_ptr<Watch> Start(std::string name, std::chrono::milliseconds bound);

 private:
  void Run(const std::stop_token& stop);
  void Check();

  const OnStall on_stall_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::list<Watch*> watches_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_WATCHDOG_H_
