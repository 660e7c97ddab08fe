#ifndef HOLDFAST_WEIGHTS_DEQUANTIZE_H_
#define HOLDFAST_WEIGHTS_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "weights/quant_type.h"

namespace holdfast {

// Decodes `n` values (a whole number of blocks) of a row stored as `type` at `src` (any alignment,
// RowBytes(type, n) bytes) to f32 at `dst`. The scalar reference for every kernel: equal to ggml's
// own decoders bit for bit, with the scale product first (d*scale, dmin*min), then times the code,
// then minus the minimum, never fused. `type` must be one that decodes.
void DequantizeRow(QuantType type, const std::byte* src, int64_t n, float* dst);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_DEQUANTIZE_H_
