#ifndef HOLDFAST_BENCH_KERNELS_PEAK_H_
#define HOLDFAST_BENCH_KERNELS_PEAK_H_

// What one core of this machine can do, to compare kernels with.

namespace holdfast {

// Bytes per second of reading memory that no cache holds.
double StreamingReadBytesPerSecond();
// Operations (a multiply or an add) per second of the widest int8 dot instruction that the kernel
// sets use, on registers: vpdpbusd of 512 bits; 0 where the CPU has none.
double Int8DotOpsPerSecond();

}  // namespace holdfast

#endif  // HOLDFAST_BENCH_KERNELS_PEAK_H_
