#include <algorithm>

#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/scalar_math.h"

namespace holdfast::scalar {
namespace {

// sum over k of state[k, v] * weight[k] in four interleaved partial sums.
float ColumnDot(const float* state, int64_t stride, int64_t v, const float* weight, int64_t dk) {
  float p[4] = {};
  for (int64_t k = 0; k < dk; ++k) p[k % 4] = std::fma(state[k * stride + v], weight[k], p[k % 4]);
  return (p[0] + p[2]) + (p[1] + p[3]);
}

}  // namespace

void Gdn(const GdnSlice& s) {
  float* state = s.state;
  int64_t stride = s.state_stride;
  if (!s.keep_state) {
    state = s.scratch;
    stride = s.n_v;
    for (int64_t k = 0; k < s.dk; ++k) {
      std::copy(s.state + k * s.state_stride, s.state + k * s.state_stride + s.n_v,
                state + k * stride);
    }
  }
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    const float* k_hat = s.k_hat + t * s.qk_stride;
    const float* q_hat = s.q_hat + t * s.qk_stride;
    const float decay = s.decay[t * s.gate_stride], beta = s.beta[t * s.gate_stride];
    for (int64_t v = 0; v < s.n_v; ++v) {
      const float u = decay * ColumnDot(state, stride, v, k_hat, s.dk);
      const float delta = beta * (s.value[t * s.value_stride + v] - u);
      for (int64_t k = 0; k < s.dk; ++k) {
        float& cell = state[k * stride + v];
        cell = std::fma(k_hat[k], delta, decay * cell);
      }
      if (s.delta != nullptr) s.delta[t * s.delta_stride + v] = delta;
      s.out[t * s.out_stride + v] = ColumnDot(state, stride, v, q_hat, s.dk);
    }
  }
}

void GdnCommit(const GdnCommitSlice& s) {
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    const float* k_hat = s.k_hat + t * s.k_stride;
    const float* delta = s.delta + t * s.delta_stride;
    const float decay = s.decay[t * s.gate_stride];
    for (int64_t k = 0; k < s.dk; ++k) {
      for (int64_t v = 0; v < s.n_v; ++v) {
        float& cell = s.state[k * s.state_stride + v];
        cell = std::fma(k_hat[k], delta[v], decay * cell);
      }
    }
  }
}

}  // namespace holdfast::scalar
