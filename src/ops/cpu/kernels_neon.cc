#if defined(__aarch64__)
#define HF_KERNEL_SET neon
#define HF_KERNEL_SET_NAME "neon"
#include "ops/cpu/simd/kernel_table-inl.h"
#endif
