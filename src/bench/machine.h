#ifndef HOLDFAST_BENCH_MACHINE_H_
#define HOLDFAST_BENCH_MACHINE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// What a figure was measured on.
struct Machine {
  std::string cpu;  // its model name; empty: unknown
  int n_cpus = 0;   // that this process may use
  uint64_t memory_bytes = 0;
  double busy_share = 0.0;  // of the CPUs' time that others took while this process waited
  bool busy() const { return busy_share > 0.1; }
};

// Takes a fifth of a second, in which nothing of this process should run.
Machine ReadMachine();

// "model name" of /proc/cpuinfo, with runs of spaces made one; empty: it has none.
std::string CpuModelName(std::string_view cpuinfo);

// Time that all CPUs spent since the start, from /proc/stat.
struct CpuTimes {
  uint64_t busy = 0, all = 0;  // what a hypervisor took away counts as busy
};
CpuTimes ParseCpuTimes(std::string_view proc_stat);

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_MACHINE_H_
