#ifndef HOLDFAST_BASE_HOST_MEMORY_H_
#define HOLDFAST_BASE_HOST_MEMORY_H_

// How much memory may still be taken without driving the host, or the container we are in, into
// swap or its OOM killer. The sums are pure functions over counters; unknown counters make the
// answer unknown, and unknown means refuse.

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

// One cgroup that contains this process, v1 or v2.
struct CgroupCounters {
  std::string path;                     // for messages
  std::optional<uint64_t> limit_bytes;  // memory.max / memory.limit_in_bytes; none: no limit
  std::optional<uint64_t> high_bytes;   // memory.high; none: no limit
  std::optional<uint64_t> used_bytes;   // memory.current / memory.usage_in_bytes
  std::optional<uint64_t> inactive_file_bytes;  // of memory.stat (v1: total_inactive_file)
  std::optional<uint64_t> dirty_file_bytes;     // file_dirty + file_writeback: not clean, no credit
};

struct LinuxMemoryCounters {
  std::optional<uint64_t> total_bytes, available_bytes;  // MemTotal, MemAvailable
  std::vector<CgroupCounters> cgroups;                   // own level first, root last
  // The hierarchy could not be read as a whole: what is missing may be the limit that counts.
  bool cgroups_unknown = false;
};

struct MacosMemoryCounters {
  std::optional<uint64_t> page_bytes, total_bytes;
  std::optional<uint64_t> free, purgeable, inactive, speculative, external;  // pages
};

struct WindowsMemoryCounters {
  std::optional<uint64_t> total_physical_bytes, available_physical_bytes;
  std::optional<uint64_t> available_commit_bytes;
};

// What the answer was made of.
struct HostMemory {
  std::optional<uint64_t> total_bytes;      // the machine's, or the tightest limit's
  std::optional<uint64_t> available_bytes;  // none: unknown
  std::string limited_by;                   // "host", a cgroup's path, "commit", what is unknown
};

HostMemory AvailableMemory(const LinuxMemoryCounters& counters);
// free + purgeable + min(inactive + speculative, external): inactive pages that are not backed by
// files come back only by compression or swap.
HostMemory AvailableMemory(const MacosMemoryCounters& counters);
HostMemory AvailableMemory(const WindowsMemoryCounters& counters);

// --- Parsers of Linux's files; what is missing or malformed is left unknown. ---
void ParseMeminfo(std::string_view text, LinuxMemoryCounters* counters);
// "max" and v1's "as much as fits" (>= 2^62) are no limit.
enum class CgroupLimitKind { kNone, kBytes, kUnknown };
struct CgroupLimit {
  CgroupLimitKind kind = CgroupLimitKind::kUnknown;
  uint64_t bytes = 0;
};
CgroupLimit ParseCgroupLimit(std::string_view text);
// The counters of this host: /proc/meminfo, /proc/self/cgroup, /proc/self/mountinfo and every level
// of the memory hierarchy. `root` is put before every path (tests).
LinuxMemoryCounters ReadLinuxMemory(const std::string& root = "");

// The live system's, by the platform's formula; unknown on other platforms.
HostMemory ReadHostMemory();

// Resident bytes of this process; none when unknown.
std::optional<uint64_t> ReadProcessResidentBytes(const std::string& root = "");

// Says yes or no to growth. Readings are cached for a moment, and what was granted since the last
// one is taken off it. Threads: any.
class MemoryGuard {
 public:
  struct Options {
    uint64_t min_free_bytes = uint64_t{1} << 30;  // --cache-min-free: stays free
    std::optional<uint64_t> memory_limit_bytes;   // --memory-limit: this process's resident bytes
    double max_age_s = 0.25;                      // of a reading
  };
  struct Sources {
    std::function<HostMemory()> host;
    std::function<std::optional<uint64_t>()> resident;
    std::function<double()> now_s;
  };
  explicit MemoryGuard(const Options& options);  // the live system
  MemoryGuard(const Options& options, Sources sources);

  // OK when `bytes` more fit; kResourceExhausted with the arithmetic, or saying what is unknown.
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
  Room RoomNow();  // with mutex_ held

  const Options options_;
  const Sources sources_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  HostMemory host_;
  std::optional<uint64_t> resident_;
  double read_at_s_ = -1e18;
  uint64_t granted_since_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_HOST_MEMORY_H_
