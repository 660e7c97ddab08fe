#include "base/watchdog.h"

#include <utility>

#include "base/check.h"
#include "base/thread_activity.h"

namespace holdfast {
namespace {

constexpr int64_t kPaused = -1;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Watchdog::Watch::Watch(Watchdog* owner, std::string name, std::chrono::milliseconds bound)
    : owner_(owner), name_(std::move(name)), bound_(bound), last_ms_(NowMs()) {}

Watchdog::Watch::~Watch() {
  std::lock_guard lock(owner_->mutex_);
  owner_->watches_.remove(this);
}

void Watchdog::Watch::Progress() { last_ms_.store(NowMs(), std::memory_order_relaxed); }
void Watchdog::Watch::Pause() { last_ms_.store(kPaused, std::memory_order_relaxed); }

Watchdog::Watchdog(OnStall on_stall, std::chrono::milliseconds interval)
    : on_stall_(std::move(on_stall)), interval_(interval) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

Watchdog::~Watchdog() {
  thread_.request_stop();
  thread_.join();
  HF_CHECK(watches_.empty());
}

std::unique_ptr<Watchdog::Watch> Watchdog::Start(std::string name,
                                                 std::chrono::milliseconds bound) {
  std::unique_ptr<Watch> watch(new Watch(this, std::move(name), bound));
  std::lock_guard lock(mutex_);
  watches_.push_back(watch.get());
  return watch;
}

void Watchdog::Run(const std::stop_token& stop) {
  ThreadActivity activity("watchdog");
  activity.Set("watching");
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, interval_, [] { return false; });
    }
    if (!stop.stop_requested()) Check();
  }
}

void Watchdog::Check() {
  struct Stall {
    std::string name;
    std::chrono::milliseconds silent;
  };
  std::list<Stall> stalls;
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ms = NowMs();
    for (Watch* watch : watches_) {
      const int64_t last_ms = watch->last_ms_.load(std::memory_order_relaxed);
      const std::chrono::milliseconds silent(now_ms - last_ms);
      if (last_ms == kPaused || silent < watch->bound_) {
        watch->reported_ = false;
      } else if (!std::exchange(watch->reported_, true)) {
        stalls.push_back({watch->name_, silent});
      }
    }
  }
  // Without the lock: a stalled thread must be able to end its watch meanwhile.
  for (const Stall& stall : stalls) on_stall_(stall.name, stall.silent, DescribeThreads());
}

}  // namespace holdfast
