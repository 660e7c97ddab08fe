#ifndef HOLDFAST_OPS_CPU_KV_CELLS_H_
#define HOLDFAST_OPS_CPU_KV_CELLS_H_

#include <cstddef>
#include <cstdint>

#include "ops/kv_format.h"

namespace holdfast {

// Quantises x[0, n) to int8 by the rule of QuantizedRows (kernels.h) with one group.
void QuantizeGroup(const float* x, int64_t n, int8_t* codes, float* scale);

// Writes one head vector of `head_dim` values as a cell. `scales` (fp16 bits, one for each
// CellGroup) is used by int8 only (spec: qwen4exp, section 10). A group that holds a value which is
// not finite, or too large for an fp16 scale, gets a NaN scale: whoever reads it gets NaN.
void WriteCell(KvFormat format, const float* x, int64_t head_dim, std::byte* codes,
               std::byte* scales);

// Bytes of one head vector's codes.
inline int64_t CellCodeBytes(KvFormat format, int64_t head_dim) {
  return head_dim * (format == KvFormat::kF32 ? 4 : format == KvFormat::kF16 ? 2 : 1);
}
// Bytes of one head vector's scales.
inline int64_t CellScaleBytes(KvFormat format, int64_t head_dim) {
  return format == KvFormat::kInt8 ? head_dim / CellGroup(head_dim) * 2 : 0;
}

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_KV_CELLS_H_
