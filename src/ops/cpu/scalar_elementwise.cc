#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/scalar_math.h"

namespace holdfast::scalar {

void SigmoidAll(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Sigmoid(x[i]);
}

void SiluAll(const float* x, float divisor, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Silu(x[i] / divisor);
}

void Swiglu(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Silu(gate[i]) * up[i];
}

void SigmoidMul(const float* x, const float* gate, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * Sigmoid(gate[i]);
}

void Axpy(float a, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

void HcMix(const float* m, const float* normed, int64_t n_streams, int64_t dim, float* out) {
  for (int64_t d = 0; d < dim; ++d) {
    float acc = Sigmoid(m[d]) * normed[d];
    for (int64_t k = 1; k < n_streams; ++k) {
      acc = std::fma(Sigmoid(m[k * dim + d]), normed[k * dim + d], acc);
    }
    out[d] = acc / static_cast<float>(n_streams);
  }
}

void ConvSilu(const float* const* x, const float* w, int64_t w_stride, int n_taps, int64_t n,
              float* out) {
  for (int64_t c = 0; c < n; ++c) {
    float acc = w[c] * x[0][c];
    for (int i = 1; i < n_taps; ++i) acc = std::fma(w[i * w_stride + c], x[i][c], acc);
    out[c] = Silu(acc);
  }
}

}  // namespace holdfast::scalar
