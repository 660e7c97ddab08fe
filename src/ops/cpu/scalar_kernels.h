#ifndef HOLDFAST_OPS_CPU_SCALAR_KERNELS_H_
#define HOLDFAST_OPS_CPU_SCALAR_KERNELS_H_

// The functions of the scalar table: kernels.h read plainly, one element at a time. They are the
// reference of every other set, so they favour being obviously right.

#include "ops/cpu/kernels.h"

namespace holdfast::scalar {

void MatMul(const MatMulSlice& slice);
void Attention(const AttentionSlice& slice);
void Gdn(const GdnSlice& slice);
void GdnCommit(const GdnCommitSlice& slice);

void RmsNorm(const float* x, const float* gain, int64_t n, float eps, float* out);
float Dot(const float* a, const float* b, int64_t n);
void Quantize(const float* x, int64_t n, int group, int8_t* codes, float* scales, int16_t* sums16);
void Residual(const float* x, const int8_t* codes, const float* scales, int64_t n, int group,
              float* out);

void SigmoidAll(const float* x, int64_t n, float* out);
void SiluAll(const float* x, float divisor, int64_t n, float* out);
void Swiglu(const float* gate, const float* up, int64_t n, float* out);
void SigmoidMul(const float* x, const float* gate, int64_t n, float* out);
void Axpy(float a, const float* x, int64_t n, float* y);
void HcMix(const float* m, const float* normed, int64_t n_streams, int64_t dim, float* out);
void ConvSilu(const float* const* x, const float* w, int64_t w_stride, int n_taps, int64_t n,
              float* out);
void IndexScores(const float* q, int64_t n_heads, int64_t dim, const float* keys,
                 int64_t key_stride, int64_t n_blocks, float* scores);
float ExpSum(float* x, float max, int64_t n);

}  // namespace holdfast::scalar

#endif  // HOLDFAST_OPS_CPU_SCALAR_KERNELS_H_
