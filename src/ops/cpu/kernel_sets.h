#ifndef HOLDFAST_OPS_CPU_KERNEL_SETS_H_
#define HOLDFAST_OPS_CPU_KERNEL_SETS_H_

// The vector kernel sets; only those of the machine that the program is built for are defined.

#include "ops/cpu/kernels.h"

namespace holdfast {
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}
namespace avx512vnni {
extern const KernelTable kTable;
}
namespace neon {
extern const KernelTable kTable;
}
}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_KERNEL_SETS_H_
