#include "bench/machine_peak.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace holdfast {
namespace {

constexpr size_t kStreamBytes = size_t{256} << 20;
constexpr int kStreamTries = 8, kDotTries = 5;

double Now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Runs work(thread) on all threads at once, `n_tries` times, and returns the best rate of work.
double BestRate(int n_threads, int n_tries, PeakClock clock, double work_per_thread,
                const std::function<void(int)>& prepare, const std::function<void(int)>& work) {
  std::vector<double> begin(n_threads), end(n_threads);
  std::barrier start(n_threads), stop(n_threads);
  double best = 0.0;
  const auto run = [&](int thread) {
    const clockid_t id = clock == PeakClock::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    prepare(thread);
    for (int i = 0; i < n_tries; ++i) {
      start.arrive_and_wait();
      begin[thread] = Now(id);
      work(thread);
      end[thread] = Now(id);
      stop.arrive_and_wait();
      if (thread != 0) continue;
      double rate = 0.0;
      if (clock == PeakClock::kThread) {
        for (int t = 0; t < n_threads; ++t) rate += work_per_thread / (end[t] - begin[t]);
      } else {
        rate = n_threads * work_per_thread /
               (*std::ranges::max_element(end) - *std::ranges::min_element(begin));
      }
      best = std::max(best, rate);
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 1; t < n_threads; ++t) threads.emplace_back(run, t);
  run(0);
  return best;
}

// Touches every cache line once: what comes over the bus is the whole line. Several lines at a time
// keep enough of them in flight.
uint64_t TouchLines(const uint64_t* data, size_t bytes) {
  constexpr size_t kWords = 8;  // of a line
  uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  const uint64_t* const end = data + bytes / sizeof(uint64_t);
  for (; data < end; data += 8 * kWords) {
    a += data[0 * kWords];
    b += data[1 * kWords];
    c += data[2 * kWords];
    d += data[3 * kWords];
    e += data[4 * kWords];
    f += data[5 * kWords];
    g += data[6 * kWords];
    h += data[7 * kWords];
  }
  return a + b + c + d + e + f + g + h;
}

// Memory of one thread, touched first by it so that it lies near it; in large pages if possible.
class StreamMemory {
 public:
  void Allocate() {
    void* data =
        mmap(nullptr, kStreamBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<uint64_t*>(data);
#ifdef MADV_HUGEPAGE
    madvise(data, kStreamBytes, MADV_HUGEPAGE);
#endif
    std::fill_n(data_, kStreamBytes / sizeof(uint64_t), uint64_t{1});
  }
  ~StreamMemory() {
    if (data_ != nullptr) munmap(data_, kStreamBytes);
  }
  const uint64_t* data() const { return data_; }

 private:
  uint64_t* data_ = nullptr;
};

constexpr int64_t kDotRounds = 5'000'000;

#if defined(__x86_64__)
// Eight independent sums hide the latency.
void DotVnni512() {
  for (int64_t i = 0; i < kDotRounds; ++i) {
    asm volatile(
        "vpdpbusd %%zmm8, %%zmm9, %%zmm0\n vpdpbusd %%zmm8, %%zmm9, %%zmm1\n"
        "vpdpbusd %%zmm8, %%zmm9, %%zmm2\n vpdpbusd %%zmm8, %%zmm9, %%zmm3\n"
        "vpdpbusd %%zmm8, %%zmm9, %%zmm4\n vpdpbusd %%zmm8, %%zmm9, %%zmm5\n"
        "vpdpbusd %%zmm8, %%zmm9, %%zmm6\n vpdpbusd %%zmm8, %%zmm9, %%zmm7\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  }
}

// A dot product of four needs three instructions: pairs to 16 bits, pairs to 32 bits, the sum.
void DotAvx2() {
  for (int64_t i = 0; i < kDotRounds; ++i) {
    asm volatile(
        "vpmaddubsw %%ymm12, %%ymm13, %%ymm0\n vpmaddubsw %%ymm12, %%ymm13, %%ymm1\n"
        "vpmaddubsw %%ymm12, %%ymm13, %%ymm2\n vpmaddubsw %%ymm12, %%ymm13, %%ymm3\n"
        "vpmaddwd %%ymm0, %%ymm14, %%ymm0\n vpmaddwd %%ymm1, %%ymm14, %%ymm1\n"
        "vpmaddwd %%ymm2, %%ymm14, %%ymm2\n vpmaddwd %%ymm3, %%ymm14, %%ymm3\n"
        "vpaddd %%ymm0, %%ymm4, %%ymm4\n vpaddd %%ymm1, %%ymm5, %%ymm5\n"
        "vpaddd %%ymm2, %%ymm6, %%ymm6\n vpaddd %%ymm3, %%ymm7, %%ymm7\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  }
}
#elif defined(__aarch64__) && defined(__linux__)
void DotNeon() {
  for (int64_t i = 0; i < kDotRounds; ++i) {
    asm volatile(
        ".arch armv8.2-a+dotprod\n"
        "sdot v0.4s, v8.16b, v9.16b\n sdot v1.4s, v8.16b, v9.16b\n"
        "sdot v2.4s, v8.16b, v9.16b\n sdot v3.4s, v8.16b, v9.16b\n"
        "sdot v4.4s, v8.16b, v9.16b\n sdot v5.4s, v8.16b, v9.16b\n"
        "sdot v6.4s, v8.16b, v9.16b\n sdot v7.4s, v8.16b, v9.16b\n" ::
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
  }
}
#endif

struct DotLoop {
  void (*run)() = nullptr;
  double dots_per_round = 0.0;  // products of two bytes
  std::string_view instruction;
};

DotLoop WidestDot() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return {DotVnni512, 8 * 64, "vpdpbusd, 512 bits"};
  if (__builtin_cpu_supports("avx2")) return {DotAvx2, 4 * 32, "vpmaddubsw, 256 bits"};
#elif defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) return {DotNeon, 8 * 16, "sdot, 128 bits"};
#endif
  return {};
}

}  // namespace

double StreamingReadBytesPerSecond(int n_threads, PeakClock clock) {
  std::vector<StreamMemory> memory(n_threads);
  return BestRate(
      n_threads, kStreamTries, clock, kStreamBytes, [&](int t) { memory[t].Allocate(); },
      [&](int t) {
        if (memory[t].data() == nullptr) return;
        volatile uint64_t sum = TouchLines(memory[t].data(), kStreamBytes);
        (void)sum;
      });
}

Int8Peak MeasureInt8Dot(int n_threads, PeakClock clock) {
  const DotLoop loop = WidestDot();
  if (loop.run == nullptr) return {};
  const double ops = 2.0 * loop.dots_per_round * kDotRounds;
  return {BestRate(
              n_threads, kDotTries, clock, ops, [](int) {}, [&](int) { loop.run(); }),
          loop.instruction};
}

}  // namespace holdfast
