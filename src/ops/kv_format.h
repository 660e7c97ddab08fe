#ifndef HOLDFAST_OPS_KV_FORMAT_H_
#define HOLDFAST_OPS_KV_FORMAT_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace holdfast {

// How K and V cells are kept. int8: codes with one fp16 scale per group of min(64, head_dim) values
// (spec: qwen4exp, section 10).
enum class KvFormat { kF32, kF16, kInt8 };

// How activations enter products with weights whose type has an integer kernel: as they are, as one
// int8 row with scales (int8), or as two, the value and what was left of it (int16: 15 bits).
// kAuto: int16 for narrow models, int8 for the others; see ResolveActivations().
enum class ActivationFormat { kF32, kAuto, kInt8, kInt16 };

// A sum over few products averages few roundings, and a narrow model has time for exact ones.
inline constexpr int64_t kNarrowHiddenSize = 1024;

inline ActivationFormat ResolveActivations(ActivationFormat format, int64_t hidden_size) {
  if (format != ActivationFormat::kAuto) return format;
  return hidden_size < kNarrowHiddenSize ? ActivationFormat::kInt16 : ActivationFormat::kInt8;
}

inline constexpr int64_t kInt8CellGroup = 64;

// Values per scale of an int8 cell.
inline int64_t CellGroup(int64_t head_dim) {
  return head_dim < kInt8CellGroup ? head_dim : kInt8CellGroup;
}

std::string_view KvFormatName(KvFormat format);
Result<KvFormat> ParseKvFormat(std::string_view name);  // "f32", "f16", "int8"
std::string_view ActivationFormatName(ActivationFormat format);
Result<ActivationFormat> ParseActivationFormat(std::string_view name);  // "auto", "f32", …

}  // namespace holdfast

#endif  // HOLDFAST_OPS_KV_FORMAT_H_
