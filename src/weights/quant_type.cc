#include "weights/quant_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace holdfast {
namespace {

// Sorted by id. Sizes: ggml's table of types.
constexpr std::array kTypes = {
    QuantTypeInfo{QuantType::kF32, "F32", 1, 4, true},
    QuantTypeInfo{QuantType::kF16, "F16", 1, 2, true},
    QuantTypeInfo{QuantType::kQ4_0, "Q4_0", 32, 18, true},
    QuantTypeInfo{QuantType::kQ4_1, "Q4_1", 32, 20, true},
    QuantTypeInfo{QuantType::kQ5_0, "Q5_0", 32, 22, true},
    QuantTypeInfo{QuantType::kQ5_1, "Q5_1", 32, 24, true},
    QuantTypeInfo{QuantType::kQ8_0, "Q8_0", 32, 34, true},
    QuantTypeInfo{QuantType::kQ8_1, "Q8_1", 32, 36, false},
    QuantTypeInfo{QuantType::kQ2_K, "Q2_K", 256, 84, true},
    QuantTypeInfo{QuantType::kQ3_K, "Q3_K", 256, 110, true},
    QuantTypeInfo{QuantType::kQ4_K, "Q4_K", 256, 144, true},
    QuantTypeInfo{QuantType::kQ5_K, "Q5_K", 256, 176, true},
    QuantTypeInfo{QuantType::kQ6_K, "Q6_K", 256, 210, true},
    QuantTypeInfo{QuantType::kQ8_K, "Q8_K", 256, 292, true},
    QuantTypeInfo{QuantType::kIQ2_XXS, "IQ2_XXS", 256, 66, true},
    QuantTypeInfo{QuantType::kIQ2_XS, "IQ2_XS", 256, 74, true},
    QuantTypeInfo{QuantType::kIQ3_XXS, "IQ3_XXS", 256, 98, true},
    QuantTypeInfo{QuantType::kIQ1_S, "IQ1_S", 256, 50, true},
    QuantTypeInfo{QuantType::kIQ4_NL, "IQ4_NL", 32, 18, true},
    QuantTypeInfo{QuantType::kIQ3_S, "IQ3_S", 256, 110, true},
    QuantTypeInfo{QuantType::kIQ2_S, "IQ2_S", 256, 82, true},
    QuantTypeInfo{QuantType::kIQ4_XS, "IQ4_XS", 256, 136, true},
    QuantTypeInfo{QuantType::kI8, "I8", 1, 1, false},
    QuantTypeInfo{QuantType::kI16, "I16", 1, 2, false},
    QuantTypeInfo{QuantType::kI32, "I32", 1, 4, false},
    QuantTypeInfo{QuantType::kI64, "I64", 1, 8, false},
    QuantTypeInfo{QuantType::kF64, "F64", 1, 8, false},
    QuantTypeInfo{QuantType::kIQ1_M, "IQ1_M", 256, 56, true},
    QuantTypeInfo{QuantType::kBF16, "BF16", 1, 2, true},
    QuantTypeInfo{QuantType::kTQ1_0, "TQ1_0", 256, 54, true},
    QuantTypeInfo{QuantType::kTQ2_0, "TQ2_0", 256, 66, true},
    QuantTypeInfo{QuantType::kMXFP4, "MXFP4", 32, 17, true},
    QuantTypeInfo{QuantType::kNVFP4, "NVFP4", 64, 36, true},
    QuantTypeInfo{QuantType::kQ1_0, "Q1_0", 128, 18, true},
    QuantTypeInfo{QuantType::kQ2_0, "Q2_0", 64, 18, true},
};

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

}  // namespace

const QuantTypeInfo* FindQuantType(int32_t ggml_id) {
  for (const QuantTypeInfo& info : kTypes) {
    if (static_cast<int32_t>(info.type) == ggml_id) return &info;
  }
  return nullptr;
}

const QuantTypeInfo* FindQuantType(std::string_view name) {
  for (const QuantTypeInfo& info : kTypes) {
    if (SameIgnoringCase(info.name, name)) return &info;
  }
  return nullptr;
}

const QuantTypeInfo& InfoOf(QuantType type) {
  const QuantTypeInfo* info = FindQuantType(static_cast<int32_t>(type));
  HF_CHECK(info != nullptr);
  return *info;
}

std::string_view QuantTypeName(QuantType type) { return InfoOf(type).name; }

std::span<const QuantTypeInfo> AllQuantTypes() { return kTypes; }

Result<int64_t> RowBytes(QuantType type, int64_t n_cols) {
  const QuantTypeInfo& info = InfoOf(type);
  if (n_cols < 0 || n_cols % info.block_size != 0) {
    return InvalidArgumentError(
        fmt::format("a row of {} values cannot be {}: it needs a multiple of {}", n_cols, info.name,
                    info.block_size));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(n_cols / info.block_size, info.block_bytes, &bytes)) {
    return InvalidArgumentError(
        fmt::format("a row of {} {} values does not fit 2^63 bytes", n_cols, info.name));
  }
  return bytes;
}

}  // namespace holdfast
