#include "bench/kernels_peak.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace holdfast {
namespace {

// CPU time of this thread, as Google Benchmark's rates use: other processes do not count.
double Seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

#if defined(__x86_64__)
constexpr int64_t kDotRounds = 20'000'000;

__attribute__((target("avx512f,avx512vnni"))) double TimeDots() {
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a;
  const double start = Seconds();
  for (int64_t i = 0; i < kDotRounds; ++i) {
    asm volatile(
        "vpdpbusd %8, %9, %0\n vpdpbusd %8, %9, %1\n vpdpbusd %8, %9, %2\n vpdpbusd %8, %9, %3\n"
        "vpdpbusd %8, %9, %4\n vpdpbusd %8, %9, %5\n vpdpbusd %8, %9, %6\n vpdpbusd %8, %9, %7\n"
        : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7)
        : "v"(a), "v"(b));
  }
  return Seconds() - start;
}
#endif

}  // namespace

double StreamingReadBytesPerSecond() {
  const KernelTable* kernels = FindKernels("auto").value();
  const std::vector<float> data(96 << 20, 1.0f);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double start = Seconds();
    volatile float sum = kernels->dot(data.data(), data.data(), static_cast<int64_t>(data.size()));
    (void)sum;
    best = std::min(best, Seconds() - start);
  }
  return static_cast<double>(data.size() * sizeof(float)) / best;
}

double Int8DotOpsPerSecond() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) best = std::min(best, TimeDots());
    return static_cast<double>(kDotRounds) * 8 * 64 * 2 / best;
  }
#endif
  return 0;
}

}  // namespace holdfast
