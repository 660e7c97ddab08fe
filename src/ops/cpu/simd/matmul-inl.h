// Which matmul kernel runs.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_INL_H_

#include "ops/cpu/simd/matmul_float-inl.h"
#include "ops/cpu/simd/matmul_groups-inl.h"
#include "ops/cpu/simd/matmul_quads-inl.h"
#include "ops/cpu/simd/matmul_tile-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

template <class T, int kX>
void MatMulFew(const MatMulSlice& s) {
  if constexpr (T::kGroup == 256) {
    MatMulQuads<T, kX>(s);
  } else {
#if HWY_MAX_BYTES == 64
    MatMulGroups<T, kX>(s);
#else
    MatMulRows<T, kX>(s);
#endif
  }
}

template <class T>
void MatMulInteger(const MatMulSlice& s) {
  switch (TermRows(s)) {
    case 0:
      return;
    case 1:
      return MatMulFew<T, 1>(s);
    case 2:
      return MatMulFew<T, 2>(s);
    case 3:
      return MatMulFew<T, 3>(s);
    case 4:
      return MatMulFew<T, 4>(s);
    default:
      return MatMulTiles<T>(s);
  }
}

void MatMulRepacked(const MatMulSlice& s) {
  switch (s.type) {
    case QuantType::kIQ2_XXS:
      return MatMulInteger<RepackedIQ2_XXS>(s);
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
      return MatMulInteger<RepackedIQ2>(s);
    case QuantType::kIQ3_XXS:
      return MatMulInteger<RepackedIQ3_XXS>(s);
    case QuantType::kIQ3_S:
      return MatMulInteger<RepackedIQ3_S>(s);
    default:  // other types are not repacked
      return;
  }
}

void MatMul(const MatMulSlice& s) {
  if (s.x != nullptr) return MatMulFloat(s);
  if (s.repacked) return MatMulRepacked(s);
  switch (s.type) {
    case QuantType::kQ8_0:
      return MatMulInteger<TypeQ8_0>(s);
    case QuantType::kQ4_0:
      return MatMulInteger<TypeQ4_0>(s);
    case QuantType::kQ4_1:
      return MatMulInteger<TypeQ4_1>(s);
    case QuantType::kQ5_0:
      return MatMulInteger<TypeQ5_0>(s);
    case QuantType::kQ5_1:
      return MatMulInteger<TypeQ5_1>(s);
    case QuantType::kQ2_0:
      return MatMulInteger<TypeQ2_0>(s);
    case QuantType::kIQ4_NL:
      return MatMulInteger<TypeIQ4_NL>(s);
    case QuantType::kQ2_K:
      return MatMulInteger<TypeQ2_K>(s);
    case QuantType::kQ3_K:
      return MatMulInteger<TypeQ3_K>(s);
    case QuantType::kQ4_K:
      return MatMulInteger<TypeQ4_K>(s);
    case QuantType::kQ5_K:
      return MatMulInteger<TypeQ5_K>(s);
    case QuantType::kQ6_K:
      return MatMulInteger<TypeQ6_K>(s);
    case QuantType::kIQ4_XS:
      return MatMulInteger<TypeIQ4_XS>(s);
    case QuantType::kIQ2_XXS:
      return MatMulInteger<TypeIQ2_XXS>(s);
    case QuantType::kIQ2_XS:
      return MatMulInteger<TypeIQ2_XS>(s);
    case QuantType::kIQ2_S:
      return MatMulInteger<TypeIQ2_S>(s);
    case QuantType::kIQ3_XXS:
      return MatMulInteger<TypeIQ3_XXS>(s);
    case QuantType::kIQ3_S:
      return MatMulInteger<TypeIQ3_S>(s);
    default:  // a type without an integer kernel never gets here
      return;
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_INL_H_
