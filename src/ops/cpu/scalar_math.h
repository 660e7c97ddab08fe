#ifndef HOLDFAST_OPS_CPU_SCALAR_MATH_H_
#define HOLDFAST_OPS_CPU_SCALAR_MATH_H_

// The arithmetic of the numerics contract (docs/exactness.md), one element at a time.
//
// Every kernel set must give exactly these bits. Only +, -, *, /, sqrt and fma (one rounding) are
// used, and files are compiled with -ffp-contract=off, so results do not depend on the compiler.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace holdfast {

inline constexpr int kLanes = 16;
using Lanes = std::array<float, kLanes>;

// The fixed tree: lane i takes lane i+8, then i+4, i+2, i+1.
inline float TreeSum(Lanes l) {
  for (int stride = kLanes / 2; stride > 0; stride /= 2) {
    for (int i = 0; i < stride; ++i) l[i] += l[i + stride];
  }
  return l[0];
}

// sum(a[i] * b[i]): element i goes to lane i % 16 by fma, in ascending i, then the tree.
inline float Dot16(const float* a, const float* b, int64_t n) {
  Lanes l{};
  for (int64_t i = 0; i < n; ++i) l[i % kLanes] = std::fma(a[i], b[i], l[i % kLanes]);
  return TreeSum(l);
}

// sum(a[i]) with the same lanes and tree.
inline float Sum16(const float* a, int64_t n) {
  Lanes l{};
  for (int64_t i = 0; i < n; ++i) l[i % kLanes] += a[i];
  return TreeSum(l);
}

// e^x. Within 2 ulp for x in [-87.3, 88.7]; below it 0, above it +inf; NaN stays NaN.
// n = round(x * log2 e); r = x - n ln 2 in two parts; degree-6 Taylor-like minimax polynomial of
// e^r on |r| <= ln2/2 (Cephes expf coefficients); times 2^n in two exact steps.
inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2Hi = 0.693359375f;
  constexpr float kLn2Lo = -2.12194440e-4f;
  constexpr float kMax = 88.72283f;
  constexpr float kMin = -87.33654f;
  if (!(x == x)) return x;
  if (x > kMax) return std::bit_cast<float>(0x7f800000u);
  if (x < kMin) return 0.0f;
  const float n = std::nearbyint(x * kLog2E);  // ties to even
  float r = std::fma(n, -kLn2Hi, x);
  r = std::fma(n, -kLn2Lo, r);
  float p = 1.9875691500e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  p = std::fma(p, r, 5.0000001201e-1f);
  const float r2 = r * r;
  p = std::fma(p, r2, r) + 1.0f;
  const int32_t half = static_cast<int32_t>(n) / 2;  // toward zero; n is in [-126, 128]
  const int32_t rest = static_cast<int32_t>(n) - half;
  const float s1 = std::bit_cast<float>((half + 127) << 23);
  const float s2 = std::bit_cast<float>((rest + 127) << 23);
  return (p * s1) * s2;
}

inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }
inline float Silu(float x) { return x * Sigmoid(x); }

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_SCALAR_MATH_H_
