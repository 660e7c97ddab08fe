// Common ground of the vector kernels. These headers are compiled once per kernel set: each
// kernels_<set>.cc defines HF_KERNEL_SET and is built with that set's -m flags, so everything here
// lives in an unnamed namespace inside holdfast::HF_KERNEL_SET. Nothing of std:: that leaves code
// behind (containers, algorithms, even std::bit_cast in Debug) may be used: the linker would merge
// it with the portable program's copy. tools/check_kernel_objects.sh looks for such symbols.
#ifndef HOLDFAST_OPS_CPU_SIMD_SIMD_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_SIMD_INL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include "hwy/highway.h"
#include "ops/cpu/kernels.h"

#define HF_INLINE inline __attribute__((always_inline))
// Small loops over arrays of vectors: without full unrolling g++ -O2 keeps the array in memory.
#if defined(__clang__)
#define HF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HF_UNROLL _Pragma("GCC unroll 32")
#endif

namespace holdfast::HF_KERNEL_SET {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Native vectors.
using TagF32 = hn::ScalableTag<float>;
using TagI32 = hn::ScalableTag<int32_t>;
using TagU8 = hn::ScalableTag<uint8_t>;
using VF32 = hn::Vec<TagF32>;
using VI32 = hn::Vec<TagI32>;
using VU8 = hn::Vec<TagU8>;
constexpr TagF32 kF32;
constexpr TagI32 kI32;
constexpr TagU8 kU8;
constexpr int kN = HWY_MAX_BYTES / 4;  // 32-bit lanes of a native vector
constexpr int kV = 16 / kN;            // native vectors that make 16 lanes

HF_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

// The 16 virtual lanes of the numerics contract, as native vectors.
struct F32x16 {
  VF32 v[kV];
};

HF_INLINE F32x16 Zero16() {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Zero(kF32);
  return r;
}

HF_INLINE F32x16 Set16(float x) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Set(kF32, x);
  return r;
}

HF_INLINE F32x16 Load16(const float* p) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::LoadU(kF32, p + i * kN);
  return r;
}

HF_INLINE void Store16(const F32x16& a, float* p) {
  HF_UNROLL for (int i = 0; i < kV; ++i) hn::StoreU(a.v[i], kF32, p + i * kN);
}

HF_INLINE F32x16 Add16(const F32x16& a, const F32x16& b) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Add(a.v[i], b.v[i]);
  return r;
}

HF_INLINE F32x16 Mul16(const F32x16& a, const F32x16& b) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Mul(a.v[i], b.v[i]);
  return r;
}

HF_INLINE F32x16 MulAdd16(const F32x16& a, const F32x16& b, const F32x16& c) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
  return r;
}

// TreeSum of scalar_math.h.
HF_INLINE float TreeSum4(hn::Vec<hn::FixedTag<float, 4>> v) {
  alignas(16) float l[4];
  hn::Store(v, hn::FixedTag<float, 4>(), l);
  return (l[0] + l[2]) + (l[1] + l[3]);
}

HF_INLINE float TreeSum(const F32x16& a) {
#if HWY_MAX_BYTES == 64
  const hn::Half<TagF32> d8;
  const hn::Half<decltype(d8)> d4;
  const auto v8 = hn::Add(hn::LowerHalf(d8, a.v[0]), hn::UpperHalf(d8, a.v[0]));
  return TreeSum4(hn::Add(hn::LowerHalf(d4, v8), hn::UpperHalf(d4, v8)));
#elif HWY_MAX_BYTES == 32
  const hn::Half<TagF32> d4;
  const auto v8 = hn::Add(a.v[0], a.v[1]);
  return TreeSum4(hn::Add(hn::LowerHalf(d4, v8), hn::UpperHalf(d4, v8)));
#else
  return TreeSum4(hn::Add(hn::Add(a.v[0], a.v[2]), hn::Add(a.v[1], a.v[3])));
#endif
}

// Lanes that take the last n < 16 products: lane i = fma(a[i], b[i], lane i), the others as they
// were. One at a time, because a masked fma with zeros would turn a lane of -0 into +0.
HF_INLINE F32x16 MulAddTail(const float* a, const float* b, int64_t n, const F32x16& lanes) {
  float l[16];
  Store16(lanes, l);
  for (int64_t i = 0; i < n; ++i) l[i] = __builtin_fmaf(a[i], b[i], l[i]);
  return Load16(l);
}

// out[i] = fn(vector at in[i]) for n values; the last part of a vector goes through a buffer.
template <class Fn>
HF_INLINE void Map(const float* in, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kN <= n; i += kN) hn::StoreU(fn(hn::LoadU(kF32, in + i)), kF32, out + i);
  if (i == n) return;
  float buffer[kN] = {};
  memcpy(buffer, in + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::StoreU(fn(hn::LoadU(kF32, buffer)), kF32, buffer);
  memcpy(out + i, buffer, static_cast<size_t>(n - i) * sizeof(float));
}

// The same with two inputs.
template <class Fn>
HF_INLINE void Map2(const float* a, const float* b, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kN <= n; i += kN) {
    hn::StoreU(fn(hn::LoadU(kF32, a + i), hn::LoadU(kF32, b + i)), kF32, out + i);
  }
  if (i == n) return;
  float x[kN] = {}, y[kN] = {};
  memcpy(x, a + i, static_cast<size_t>(n - i) * sizeof(float));
  memcpy(y, b + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::StoreU(fn(hn::LoadU(kF32, x), hn::LoadU(kF32, y)), kF32, x);
  memcpy(out + i, x, static_cast<size_t>(n - i) * sizeof(float));
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_SIMD_INL_H_
