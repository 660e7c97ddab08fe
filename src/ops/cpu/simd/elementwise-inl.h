// The element by element functions of the table.
#ifndef HOLDFAST_OPS_CPU_SIMD_ELEMENTWISE_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_ELEMENTWISE_INL_H_

#include "ops/cpu/simd/math-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

void SigmoidRow(const float* x, int64_t n, float* out) {
  Map(x, n, out, [](VF32 v) { return Sigmoid(v); });
}

void SiluRow(const float* x, float divisor, int64_t n, float* out) {
  const VF32 by = Constant(divisor);
  Map(x, n, out, [by](VF32 v) { return Silu(hn::Div(v, by)); });
}

void Swiglu(const float* gate, const float* up, int64_t n, float* out) {
  Map2(gate, up, n, out, [](VF32 g, VF32 u) { return hn::Mul(Silu(g), u); });
}

void SigmoidMul(const float* x, const float* gate, int64_t n, float* out) {
  Map2(x, gate, n, out, [](VF32 v, VF32 g) { return hn::Mul(v, Sigmoid(g)); });
}

void Axpy(float a, const float* x, int64_t n, float* y) {
  const VF32 factor = Constant(a);
  Map2(x, y, n, y, [factor](VF32 v, VF32 w) { return hn::MulAdd(factor, v, w); });
}

// One native vector of hc_mix; the streams lie `stride` apart.
HF_INLINE VF32 MixStreams(const float* m, const float* normed, int64_t n_streams, int64_t stride) {
  VF32 acc = hn::Mul(Sigmoid(hn::LoadU(kF32, m)), hn::LoadU(kF32, normed));
  for (int64_t k = 1; k < n_streams; ++k) {
    acc = hn::MulAdd(Sigmoid(hn::LoadU(kF32, m + k * stride)), hn::LoadU(kF32, normed + k * stride),
                     acc);
  }
  return hn::Div(acc, Constant(static_cast<float>(n_streams)));
}

void HcMix(const float* m, const float* normed, int64_t n_streams, int64_t dim, float* out) {
  int64_t d = 0;
  for (; d + kN <= dim; d += kN) {
    hn::StoreU(MixStreams(m + d, normed + d, n_streams, dim), kF32, out + d);
  }
  for (; d < dim; ++d) {  // one value at a time through a vector of copies
    float acc = 0.0f;
    for (int64_t k = 0; k < n_streams; ++k) {
      const float s = hn::GetLane(Sigmoid(Constant(m[k * dim + d])));
      const float x = normed[k * dim + d];
      acc = k == 0 ? s * x : __builtin_fmaf(s, x, acc);
    }
    out[d] = acc / static_cast<float>(n_streams);
  }
}

void ConvSilu(const float* const* x, const float* w, int64_t w_stride, int n_taps, int64_t n,
              float* out) {
  int64_t c = 0;
  for (; c + kN <= n; c += kN) {
    VF32 acc = hn::Mul(hn::LoadU(kF32, w + c), hn::LoadU(kF32, x[0] + c));
    for (int i = 1; i < n_taps; ++i) {
      acc = hn::MulAdd(hn::LoadU(kF32, w + i * w_stride + c), hn::LoadU(kF32, x[i] + c), acc);
    }
    hn::StoreU(Silu(acc), kF32, out + c);
  }
  for (; c < n; ++c) {
    float acc = w[c] * x[0][c];
    for (int i = 1; i < n_taps; ++i) acc = __builtin_fmaf(w[i * w_stride + c], x[i][c], acc);
    out[c] = hn::GetLane(Silu(Constant(acc)));
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_ELEMENTWISE_INL_H_
