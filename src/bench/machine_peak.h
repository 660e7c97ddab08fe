#ifndef HOLDFAST_BENCH_MACHINE_PEAK_H_
#define HOLDFAST_BENCH_MACHINE_PEAK_H_

// What this machine can do at best, to compare with: measured, not looked up.

#include <cstdint>
#include <string_view>

namespace holdfast {

enum class PeakClock {
  kWall,    // all threads together, as a step runs
  kThread,  // CPU time of each thread: other processes do not count
};

// Bytes per second of reading memory that no cache holds, one stream for each thread. Takes 256 MiB
// a thread and about half a second.
double StreamingReadBytesPerSecond(int n_threads, PeakClock clock);

struct Int8Peak {
  // Operations (a multiply or an add) per second, on registers; 0: not known on this CPU.
  double ops_per_s = 0.0;
  std::string_view instruction;  // the widest int8 dot product that the kernel sets use
};
Int8Peak MeasureInt8Dot(int n_threads, PeakClock clock);

struct MachinePeak {
  double read_bytes_per_s = 0.0;
  Int8Peak int8;
};

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_MACHINE_PEAK_H_
