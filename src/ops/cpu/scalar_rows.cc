#include <algorithm>
#include <bit>

#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/scalar_math.h"

namespace holdfast::scalar {

void RmsNorm(const float* x, const float* gain, int64_t n, float eps, float* out) {
  const float inv = 1.0f / std::sqrt(Dot16(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] * inv) * (gain != nullptr ? gain[i] : 1.0f);
}

float Dot(const float* a, const float* b, int64_t n) { return Dot16(a, b, n); }

void Quantize(const float* x, int64_t n, int group, int8_t* codes, float* scales, int16_t* sums16) {
  for (int64_t g = 0; g < n / group; ++g) {
    const float* row = x + g * group;
    uint32_t amax_bits = 0;
    for (int i = 0; i < group; ++i) {
      amax_bits = std::max(amax_bits, std::bit_cast<uint32_t>(row[i]) & 0x7fffffffu);
    }
    const float amax = std::bit_cast<float>(amax_bits);
    const bool poisoned = amax_bits >= 0x7f800000u;
    const bool zero = !poisoned && amax < 1e-30f;
    scales[g] = poisoned ? std::bit_cast<float>(0x7fc00000u) : zero ? 0.0f : amax / 127.0f;
    const float inv = 127.0f / amax;
    for (int i = 0; i < group; ++i) {
      codes[g * group + i] =
          poisoned || zero ? int8_t{0} : static_cast<int8_t>(std::nearbyint(row[i] * inv));
    }
  }
  if (sums16 == nullptr) return;
  for (int64_t j = 0; j < n / 16; ++j) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += codes[16 * j + i];
    sums16[j] = static_cast<int16_t>(sum);
  }
}

void Residual(const float* x, const int8_t* codes, const float* scales, int64_t n, int group,
              float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::fma(-static_cast<float>(codes[i]), scales[i / group], x[i]);
  }
}

void IndexScores(const float* q, int64_t n_heads, int64_t dim, const float* keys,
                 int64_t key_stride, int64_t n_blocks, float* scores) {
  for (int64_t b = 0; b < n_blocks; ++b) {
    float sum = 0.0f;
    for (int64_t a = 0; a < n_heads; ++a) {
      float c = 0.0f;
      for (int64_t d = 0; d < dim; ++d) c = std::fma(q[a * dim + d], keys[d * key_stride + b], c);
      const float relu = c > 0.0f ? c : 0.0f;
      sum = a == 0 ? relu : sum + relu;
    }
    scores[b] = sum;
  }
}

float ExpSum(float* x, float max, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i] - max);
  return Sum16(x, n);
}

}  // namespace holdfast::scalar
