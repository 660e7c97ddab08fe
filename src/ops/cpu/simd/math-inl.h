// Exp, Sigmoid and Silu of scalar_math.h on native vectors: the same operations in the same order.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATH_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATH_INL_H_

#include "ops/cpu/simd/simd-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

HF_INLINE VF32 Constant(float x) { return hn::Set(kF32, x); }

HF_INLINE VF32 PowerOfTwo(VI32 exponent) {
  return hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(kI32, 127))));
}

HF_INLINE VF32 Exp(VF32 x) {
  // Rounding through an integer differs from nearbyint only in the sign of a zero n, and that
  // does not reach the result.
  const VI32 n_int = hn::NearestInt(hn::Mul(x, Constant(1.44269504088896341f)));
  const VF32 n = hn::ConvertTo(kF32, n_int);
  VF32 r = hn::MulAdd(n, Constant(-0.693359375f), x);
  r = hn::MulAdd(n, Constant(2.12194440e-4f), r);
  VF32 p = Constant(1.9875691500e-4f);
  p = hn::MulAdd(p, r, Constant(1.3981999507e-3f));
  p = hn::MulAdd(p, r, Constant(8.3334519073e-3f));
  p = hn::MulAdd(p, r, Constant(4.1665795894e-2f));
  p = hn::MulAdd(p, r, Constant(1.6666665459e-1f));
  p = hn::MulAdd(p, r, Constant(5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), Constant(1.0f));
  // n / 2 toward zero.
  const VI32 half = hn::ShiftRight<1>(hn::Sub(n_int, hn::ShiftRight<31>(n_int)));
  const VF32 e = hn::Mul(hn::Mul(p, PowerOfTwo(half)), PowerOfTwo(hn::Sub(n_int, half)));
  const VF32 bounded = hn::IfThenElse(hn::Gt(x, Constant(88.72283f)),
                                      hn::BitCast(kF32, hn::Set(kI32, 0x7f800000)), e);
  const VF32 floored = hn::IfThenElse(hn::Lt(x, Constant(-87.33654f)), hn::Zero(kF32), bounded);
  return hn::IfThenElse(hn::Eq(x, x), floored, x);
}

HF_INLINE VF32 Sigmoid(VF32 x) {
  const VF32 one = Constant(1.0f);
  return hn::Div(one, hn::Add(one, Exp(hn::Neg(x))));
}

HF_INLINE VF32 Silu(VF32 x) { return hn::Mul(x, Sigmoid(x)); }

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATH_INL_H_
