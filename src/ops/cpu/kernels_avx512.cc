#if defined(__x86_64__)
#define HF_KERNEL_SET avx512
#define HF_KERNEL_SET_NAME "avx512"
#include "ops/cpu/simd/kernel_table-inl.h"
#endif
