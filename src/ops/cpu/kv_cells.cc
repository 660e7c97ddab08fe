#include "ops/cpu/kv_cells.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace holdfast {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint16_t kHalfNan = 0x7e00u;

// Largest magnitude as bits, so that NaN counts as largest.
uint32_t MaxBits(const float* x, int64_t n) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < n; ++i) {
    bits = std::max(bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return bits;
}

void WriteInt8Group(const float* x, int64_t n, int8_t* codes, std::byte* scale_out) {
  const uint32_t max_bits = MaxBits(x, n);
  uint16_t half = kHalfNan;
  if (max_bits < kInfinityBits) half = FloatToHalf(std::bit_cast<float>(max_bits) / 127.0f);
  float scale = HalfToFloat(half);
  if (!std::isfinite(scale)) half = kHalfNan, scale = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = scale == 0.0f
                   ? int8_t{0}
                   : static_cast<int8_t>(std::clamp(std::nearbyint(x[i] / scale), -127.0f, 127.0f));
  }
  std::memcpy(scale_out, &half, sizeof(half));
}

}  // namespace

void QuantizeGroup(const float* x, int64_t n, int8_t* codes, float* scale) {
  const uint32_t max_bits = MaxBits(x, n);
  const float max = std::bit_cast<float>(max_bits);
  if (max_bits >= kInfinityBits || max < 1e-30f) {
    *scale = max_bits >= kInfinityBits ? std::bit_cast<float>(0x7fc00000u) : 0.0f;
    std::memset(codes, 0, n);
    return;
  }
  *scale = max / 127.0f;
  const float inverse = 127.0f / max;
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
}

void WriteCell(KvFormat format, const float* x, int64_t head_dim, std::byte* codes,
               std::byte* scales) {
  switch (format) {
    case KvFormat::kF32:
      std::memcpy(codes, x, head_dim * sizeof(float));
      return;
    case KvFormat::kF16:
      for (int64_t i = 0; i < head_dim; ++i) {
        const uint16_t half = FloatToHalf(x[i]);
        std::memcpy(codes + 2 * i, &half, sizeof(half));
      }
      return;
    case KvFormat::kInt8: {
      const int64_t group = CellGroup(head_dim);
      for (int64_t g = 0; g < head_dim / group; ++g) {
        WriteInt8Group(x + g * group, group, reinterpret_cast<int8_t*>(codes) + g * group,
                       scales + 2 * g);
      }
      return;
    }
  }
}

}  // namespace holdfast
