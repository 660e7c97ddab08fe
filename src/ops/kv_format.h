#ifndef HOLDFAST_OPS_KV_FORMAT_H_
#define HOLDFAST_OPS_KV_FORMAT_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace holdfast {

// How K and V cells are kept. int8: codes with one fp16 scale per group of min(64, head_dim) values
// (spec: qwen4exp, section 10).
enum class KvFormat { kF32, kF16, kInt8 };

// How activations enter products with quantised weights: as they are, or quantised per row to int8
// where the weight type has an integer kernel.
enum class ActivationFormat { kF32, kAuto };

inline constexpr int64_t kInt8CellGroup = 64;

// Values per scale of an int8 cell.
inline int64_t CellGroup(int64_t head_dim) {
  return head_dim < kInt8CellGroup ? head_dim : kInt8CellGroup;
}

std::string_view KvFormatName(KvFormat format);
Result<KvFormat> ParseKvFormat(std::string_view name);  // "f32", "f16", "int8"
std::string_view ActivationFormatName(ActivationFormat format);
Result<ActivationFormat> ParseActivationFormat(std::string_view name);  // "f32", "auto"

}  // namespace holdfast

#endif  // HOLDFAST_OPS_KV_FORMAT_H_
