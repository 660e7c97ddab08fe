#ifndef HOLDFAST_OPS_CPU_INTEGER_WEIGHTS_H_
#define HOLDFAST_OPS_CPU_INTEGER_WEIGHTS_H_

// Quantised weights as the integers of kernels.h' integer form: the scalar reference of what every
// kernel set multiplies.

#include <cstddef>
#include <cstdint>

#include "weights/quant_type.h"

namespace holdfast {

// One activation group of one weight row: y += I * (d * da) + M * (m * da), with
// I = sum_c weights[c] * code[c] and M = sum_G mins[G] * sums16[G].
struct IntegerGroup {
  int32_t weights[256];  // the first ActivationGroup(type) are set
  int32_t mins[16];      // the first ActivationGroup(type) / 16 are set, when has_min
  float d = 0.0f;
  float m = 0.0f;
  bool has_min = false;
};

// Group `group` (of ActivationGroup(type) columns) of the row at `row`. HasIntegerKernel(type).
void UnpackIntegerGroup(QuantType type, const std::byte* row, int64_t group, IntegerGroup* out);
// The same of a row of a grid type that was repacked (grid_blocks.h).
void UnpackRepackedGroup(QuantType type, const std::byte* row, int64_t group, IntegerGroup* out);

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_INTEGER_WEIGHTS_H_
