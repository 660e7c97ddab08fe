#include "base/host_memory.h"

#include <algorithm>

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif
#ifdef _WIN32
#include <windows.h>
#endif

namespace holdfast {
namespace {

HostMemory Unknown(std::string what) {
  HostMemory memory;
  memory.limited_by = std::move(what);
  return memory;
}

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// Clean file pages that nobody used lately go before anything is killed.
uint64_t CleanFileCredit(const CgroupCounters& cgroup) {
  return Less(cgroup.inactive_file_bytes.value_or(0), cgroup.dirty_file_bytes.value_or(0));
}

}  // namespace

HostMemory AvailableMemory(const LinuxMemoryCounters& counters) {
  if (!counters.total_bytes || !counters.available_bytes) {
    return Unknown("MemTotal or MemAvailable of /proc/meminfo is unknown");
  }
  if (counters.cgroups_unknown) return Unknown("the limits of our cgroups are unknown");
  HostMemory memory{counters.total_bytes, counters.available_bytes, "host"};
  for (const CgroupCounters& cgroup : counters.cgroups) {
    if (cgroup.unknown) return Unknown("the limit of cgroup " + cgroup.path + " is unknown");
    if (!cgroup.limit_bytes && !cgroup.high_bytes) continue;
    if (!cgroup.used_bytes) return Unknown("the usage of cgroup " + cgroup.path + " is unknown");
    const uint64_t limit =
        std::min(cgroup.limit_bytes.value_or(UINT64_MAX), cgroup.high_bytes.value_or(UINT64_MAX));
    const uint64_t room = Less(limit, Less(*cgroup.used_bytes, CleanFileCredit(cgroup)));
    memory.total_bytes = std::min(*memory.total_bytes, limit);
    if (room < *memory.available_bytes) {
      memory.available_bytes = room;
      memory.limited_by = "cgroup " + cgroup.path;
    }
  }
  return memory;
}

HostMemory AvailableMemory(const MacosMemoryCounters& c) {
  if (!c.page_bytes || !c.total_bytes || !c.free || !c.purgeable || !c.inactive || !c.speculative ||
      !c.external) {
    return Unknown("the host's page counts are unknown");
  }
  const uint64_t pages =
      *c.free + *c.purgeable + std::min(*c.inactive + *c.speculative, *c.external);
  return {c.total_bytes, pages * *c.page_bytes, "host"};
}

HostMemory AvailableMemory(const WindowsMemoryCounters& c) {
  if (!c.total_physical_bytes || !c.available_physical_bytes || !c.available_commit_bytes) {
    return Unknown("the host's physical or commit counters are unknown");
  }
  const bool commit = *c.available_commit_bytes < *c.available_physical_bytes;
  return {c.total_physical_bytes, std::min(*c.available_physical_bytes, *c.available_commit_bytes),
          commit ? "commit" : "host"};
}

HostMemory ReadHostMemory() {
#if defined(__linux__)
  return AvailableMemory(ReadLinuxMemory());
#elif defined(__APPLE__)
  MacosMemoryCounters c;
  vm_size_t page_bytes = 0;
  vm_statistics64_data_t vm = {};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const mach_port_t host = mach_host_self();
  if (host_page_size(host, &page_bytes) == KERN_SUCCESS &&
      host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&vm), &count) ==
          KERN_SUCCESS) {
    c.page_bytes = page_bytes;
    // free_count includes the speculative pages.
    c.free = Less(vm.free_count, vm.speculative_count);
    c.purgeable = vm.purgeable_count;
    c.inactive = vm.inactive_count;
    c.speculative = vm.speculative_count;
    c.external = vm.external_page_count;
  }
  uint64_t total = 0;
  size_t size = sizeof(total);
  if (sysctlbyname("hw.memsize", &total, &size, nullptr, 0) == 0) c.total_bytes = total;
  return AvailableMemory(c);
#elif defined(_WIN32)
  WindowsMemoryCounters c;
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  if (GlobalMemoryStatusEx(&status)) {
    c.total_physical_bytes = status.ullTotalPhys;
    c.available_physical_bytes = status.ullAvailPhys;
    c.available_commit_bytes = status.ullAvailPageFile;
  }
  return AvailableMemory(c);
#else
  return Unknown("this platform's memory counters are unknown");
#endif
}

}  // namespace holdfast
