// Indexer scores: lanes are blocks, so each block's chain of fma is the scalar one.
#ifndef HOLDFAST_OPS_CPU_SIMD_INDEX_SCORES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_INDEX_SCORES_INL_H_

#include "ops/cpu/simd/simd-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Native vectors of blocks taken at once: enough independent chains to hide the fma's latency.
constexpr int kIndexVectors = 8;

HF_INLINE VF32 Relu(VF32 c) { return hn::IfThenElseZero(hn::Gt(c, hn::Zero(kF32)), c); }

// scores of kVectors * kN blocks: one head after the other.
template <int kVectors>
HF_INLINE void IndexTile(const float* q, int64_t n_heads, int64_t dim, const float* keys,
                         int64_t key_stride, float* scores) {
  VF32 sum[kVectors];
  HF_UNROLL for (int i = 0; i < kVectors; ++i) sum[i] = hn::Zero(kF32);
  for (int64_t a = 0; a < n_heads; ++a) {
    VF32 c[kVectors];
    HF_UNROLL for (int i = 0; i < kVectors; ++i) c[i] = hn::Zero(kF32);
    for (int64_t d = 0; d < dim; ++d) {
      const VF32 weight = hn::Set(kF32, q[a * dim + d]);
      const float* key = keys + d * key_stride;
      HF_UNROLL for (int i = 0; i < kVectors; ++i) {
        c[i] = hn::MulAdd(weight, hn::LoadU(kF32, key + i * kN), c[i]);
      }
    }
    // relu never gives -0, so starting from 0 equals starting from relu(c_0).
    HF_UNROLL for (int i = 0; i < kVectors; ++i) sum[i] = hn::Add(sum[i], Relu(c[i]));
  }
  HF_UNROLL for (int i = 0; i < kVectors; ++i) hn::StoreU(sum[i], kF32, scores + i * kN);
}

void IndexScores(const float* q, int64_t n_heads, int64_t dim, const float* keys,
                 int64_t key_stride, int64_t n_blocks, float* scores) {
  int64_t b = 0;
  for (; b + kIndexVectors * kN <= n_blocks; b += kIndexVectors * kN) {
    IndexTile<kIndexVectors>(q, n_heads, dim, keys + b, key_stride, scores + b);
  }
  for (; b + kN <= n_blocks; b += kN) {
    IndexTile<1>(q, n_heads, dim, keys + b, key_stride, scores + b);
  }
  for (; b < n_blocks; ++b) {
    float sum = 0.0f;
    for (int64_t a = 0; a < n_heads; ++a) {
      float c = 0.0f;
      for (int64_t d = 0; d < dim; ++d) {
        c = __builtin_fmaf(q[a * dim + d], keys[d * key_stride + b], c);
      }
      sum += c > 0.0f ? c : 0.0f;
    }
    scores[b] = sum;
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_INDEX_SCORES_INL_H_
