#ifndef HOLDFAST_WEIGHTS_QUANT_TYPE_H_
#define HOLDFAST_WEIGHTS_QUANT_TYPE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace holdfast {

// How the values of a tensor are stored; the numbers are ggml's type ids, as GGUF files hold them.
// Layouts: docs of each decoder in dequantize.cc.
enum class QuantType : int32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct QuantTypeInfo {
  QuantType type;
  std::string_view name;  // "Q4_K"
  int64_t block_size;     // values per block; a row holds a whole number of blocks
  int64_t block_bytes;
  bool decodes;  // DequantizeRow() knows it; the others have a size only
};

// Null when no such type exists (never existed, or was removed from ggml).
const QuantTypeInfo* FindQuantType(int32_t ggml_id);
// Null when no type has that name ("q4_k" finds Q4_K).
const QuantTypeInfo* FindQuantType(std::string_view name);
const QuantTypeInfo& InfoOf(QuantType type);
std::string_view QuantTypeName(QuantType type);
// All types, in the order of their ids.
std::span<const QuantTypeInfo> AllQuantTypes();

// Bytes of a row of `n_cols` values. kInvalidArgument when n_cols is negative, not a whole number
// of blocks, or its bytes do not fit int64.
Result<int64_t> RowBytes(QuantType type, int64_t n_cols);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_QUANT_TYPE_H_
