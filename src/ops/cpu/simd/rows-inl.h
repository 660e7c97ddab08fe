// Functions that reduce a row: rms_norm, dot, quantize, residual, exp_sum.
#ifndef HOLDFAST_OPS_CPU_SIMD_ROWS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_ROWS_INL_H_

#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/simd/math-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

HF_INLINE float Dot16(const float* a, const float* b, int64_t n) {
  F32x16 lanes = Zero16();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes = MulAdd16(Load16(a + i), Load16(b + i), lanes);
  if (i < n) lanes = MulAddTail(a + i, b + i, n - i, lanes);
  return TreeSum(lanes);
}

float Dot(const float* a, const float* b, int64_t n) { return Dot16(a, b, n); }

void RmsNorm(const float* x, const float* gain, int64_t n, float eps, float* out) {
  const float inv = 1.0f / __builtin_sqrtf(Dot16(x, x, n) / static_cast<float>(n) + eps);
  const VF32 scale = Constant(inv);
  if (gain != nullptr) {
    Map2(x, gain, n, out, [scale](VF32 v, VF32 g) { return hn::Mul(hn::Mul(v, scale), g); });
  } else {
    Map(x, n, out, [scale](VF32 v) { return hn::Mul(v, scale); });
  }
}

// Sums of 16 codes each, of n codes (a multiple of 16).
HF_INLINE void SumCodes16(const int8_t* codes, int n, int16_t* sums16) {
  const hn::FixedTag<uint8_t, 16> d8;
  const auto offset = hn::Set(d8, 128);
  for (int i = 0; i < n; i += 16) {
    // SumsOf8 is for unsigned bytes.
    const auto moved = hn::Xor(hn::LoadU(d8, reinterpret_cast<const uint8_t*>(codes + i)), offset);
    const auto halves = hn::SumsOf8(moved);
    const uint64_t sum = hn::GetLane(halves) + hn::GetLane(hn::Shuffle01(halves));
    sums16[i / 16] = static_cast<int16_t>(static_cast<int>(sum) - 16 * 128);
  }
}

// Largest absolute value, compared as integers.
HF_INLINE uint32_t MaxMagnitudeBits(const float* x, int n) {
  VI32 max = hn::Zero(kI32);
  const VI32 mask = hn::Set(kI32, 0x7fffffff);
  for (int i = 0; i < n; i += kN) {
    max = hn::Max(max, hn::And(hn::BitCast(kI32, hn::LoadU(kF32, x + i)), mask));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(kI32, max)));
}

void Quantize(const float* x, int64_t n, int group, int8_t* codes, float* scales, int16_t* sums16) {
  if (group % 16 != 0) return scalar::Quantize(x, n, group, codes, scales, sums16);
  const hn::Rebind<int8_t, TagI32> d8;
  for (int64_t g = 0; g < n / group; ++g) {
    const float* row = x + g * group;
    int8_t* row_codes = codes + g * group;
    const uint32_t bits = MaxMagnitudeBits(row, group);
    float amax;
    memcpy(&amax, &bits, sizeof amax);
    if (bits >= 0x7f800000u || amax < 1e-30f) {
      scales[g] = bits >= 0x7f800000u ? __builtin_nanf("") : 0.0f;
      memset(row_codes, 0, static_cast<size_t>(group));
      if (sums16 != nullptr) {
        memset(sums16 + g * group / 16, 0, static_cast<size_t>(group) / 16 * sizeof(int16_t));
      }
      continue;
    }
    scales[g] = amax / 127.0f;
    const VF32 inv = Constant(127.0f / amax);
    for (int i = 0; i < group; i += kN) {
      const VI32 code = hn::NearestInt(hn::Mul(hn::LoadU(kF32, row + i), inv));
      hn::StoreU(hn::DemoteTo(d8, code), d8, row_codes + i);
    }
    if (sums16 != nullptr) SumCodes16(row_codes, group, sums16 + g * group / 16);
  }
}

void Residual(const float* x, const int8_t* codes, const float* scales, int64_t n, int group,
              float* out) {
  if (group % 16 != 0) return scalar::Residual(x, codes, scales, n, group, out);
  const hn::Rebind<int8_t, TagI32> d8;
  for (int64_t i = 0; i < n; i += kN) {
    const VF32 code = hn::ConvertTo(kF32, hn::PromoteTo(kI32, hn::LoadU(d8, codes + i)));
    const VF32 scale = hn::Set(kF32, scales[i / group]);
    hn::StoreU(hn::NegMulAdd(code, scale, hn::LoadU(kF32, x + i)), kF32, out + i);
  }
}

float ExpSum(float* x, float max, int64_t n) {
  const VF32 shift = Constant(max);
  Map(x, n, x, [shift](VF32 v) { return Exp(hn::Sub(v, shift)); });
  F32x16 lanes = Zero16();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes = Add16(lanes, Load16(x + i));
  if (i < n) {
    float l[16];
    Store16(lanes, l);
    for (int64_t j = i; j < n; ++j) l[j - i] += x[j];
    lanes = Load16(l);
  }
  return TreeSum(lanes);
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_ROWS_INL_H_
