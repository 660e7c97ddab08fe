#include "bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/host_memory.h"

namespace holdfast {
namespace {

std::string ReadWhole(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::string CpuModelName(std::string_view cpuinfo) {
  const size_t key = cpuinfo.find("model name");
  if (key == std::string_view::npos) return "";
  std::string_view line = cpuinfo.substr(key);
  line = line.substr(0, line.find('\n'));
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "";
  std::string name;
  for (const char c : line.substr(colon + 1)) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    if (space && (name.empty() || name.back() == ' ')) continue;
    name += space ? ' ' : c;
  }
  if (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

CpuTimes ParseCpuTimes(std::string_view proc_stat) {
  std::istringstream line(std::string(proc_stat.substr(0, proc_stat.find('\n'))));
  std::string name;
  line >> name;
  CpuTimes times;
  if (name != "cpu") return times;
  constexpr int kIdle = 3, kIoWait = 4, kSteal = 7;  // guest time is in user time already
  uint64_t value;
  for (int i = 0; i <= kSteal && line >> value; ++i) {
    times.all += value;
    if (i != kIdle && i != kIoWait) times.busy += value;
  }
  return times;
}

Machine ReadMachine() {
  Machine machine;
  const CpuTimes before = ParseCpuTimes(ReadWhole("/proc/stat"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const CpuTimes after = ParseCpuTimes(ReadWhole("/proc/stat"));
  if (after.all > before.all) {
    machine.busy_share =
        static_cast<double>(after.busy - before.busy) / static_cast<double>(after.all - before.all);
  }
  machine.cpu = CpuModelName(ReadWhole("/proc/cpuinfo"));
  if (utsname system; machine.cpu.empty() && uname(&system) == 0) machine.cpu = system.machine;
  machine.n_cpus = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) machine.n_cpus = CPU_COUNT(&set);
#endif
  if (machine.n_cpus < 1) machine.n_cpus = 1;
  machine.memory_bytes = ReadHostMemory().total_bytes.value_or(0);
  return machine;
}

}  // namespace holdfast
