#ifndef HOLDFAST_BASE_MEMORY_GUARD_H_
#define HOLDFAST_BASE_MEMORY_GUARD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/host_memory.h"
#include "base/status.h"

namespace holdfast {

// Says yes or no to growth. Readings are cached for a moment. Threads: any.
class MemoryGuard {
 public:
  struct Options {
    uint64_t min_free_bytes = uint64_t{1} << 30;  // --cache-min-free: stays free
    std::optional<uint64_t> memory_limit_bytes;   // --memory-limit: this process's resident bytes
    double max_age_s = 0.25;                      // of a reading
    // Memory that was granted shows in the readings only once it is touched: for this long it is
    // taken off them.
    double grant_hold_s = 2.0;
  };
  struct Sources {
    std::function<HostMemory()> host;
    std::function<std::optional<uint64_t>()> resident;
    std::function<double()> now_s;
  };
  explicit MemoryGuard(const Options& options);  // the live system
  MemoryGuard(const Options& options, Sources sources);

  // OK when `bytes` more fit, which are then taken as granted; kResourceExhausted with the
  // arithmetic, or saying what is unknown.
  Status Consent(uint64_t bytes);
  // Bytes that could be granted now; 0 when unknown.
  uint64_t Headroom();
  // Bytes that should be given back now: how far the host is below min_free_bytes, or the process
  // above its limit. 0 when unknown (nothing is taken then either).
  uint64_t Shortage();
  HostMemory last() const;

 private:
  struct Room {
    std::optional<int64_t> bytes;  // may be negative
    std::string why;
  };
  // With mutex_ held:
  void Refresh();
  Room RoomNow();

  const Options options_;
  const Sources sources_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  HostMemory host_;
  std::optional<uint64_t> resident_;
  double read_at_s_ = 0;
  bool has_reading_ = false;
  std::deque<std::pair<double, uint64_t>> grants_;  // time, bytes
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_MEMORY_GUARD_H_
