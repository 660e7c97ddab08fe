#ifndef HOLDFAST_BASE_HOST_MEMORY_H_
#define HOLDFAST_BASE_HOST_MEMORY_H_

// How much memory may still be taken without driving the host, or the container we are in, into
// swap or its OOM killer. The sums are pure functions over counters; unknown counters make the
// answer unknown, and unknown means refuse.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// One cgroup that contains this process, v1 or v2.
struct CgroupCounters {
  std::string path;                             // for messages
  std::optional<uint64_t> limit_bytes;          // memory.max, memory.limit_in_bytes; none: no limit
  std::optional<uint64_t> high_bytes;           // memory.high; none: no limit
  std::optional<uint64_t> used_bytes;           // memory.current, memory.usage_in_bytes
  std::optional<uint64_t> inactive_file_bytes;  // of memory.stat, the whole subtree's
  std::optional<uint64_t> dirty_file_bytes;     // dirty + writeback: not clean, no credit
  bool unknown = false;                         // a limit is there but could not be read
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

// Linux's /proc/meminfo; what is missing or malformed is left unknown.
void ParseMeminfo(std::string_view text, LinuxMemoryCounters* counters);
// The counters of this host: /proc/meminfo, /proc/self/cgroup, /proc/self/mountinfo and every level
// of the memory hierarchy. `root` is put before every path (tests).
LinuxMemoryCounters ReadLinuxMemory(const std::string& root = "");

// The live system's, by the platform's formula; unknown on other platforms.
HostMemory ReadHostMemory();

// Memory of this process that is not backed by files (RssAnon + RssShmem); none when unknown.
// Mapped weights are page cache: the host takes them back by itself.
std::optional<uint64_t> ReadProcessResidentBytes(const std::string& root = "");

}  // namespace holdfast

#endif  // HOLDFAST_BASE_HOST_MEMORY_H_
