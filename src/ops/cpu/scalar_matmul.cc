#include <algorithm>

#include "base/check.h"
#include "ops/cpu/integer_weights.h"
#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/scalar_math.h"
#include "weights/dequantize.h"

namespace holdfast::scalar {
namespace {

// A weight row is decoded once for this many activation rows.
constexpr int64_t kXBlock = 64;
// Columns decoded at a time in the float form: whole blocks of every type, whole lanes.
constexpr int64_t kChunk = 1024;

int64_t XRow(const MatMulSlice& s, int64_t j) { return s.x_index ? s.x_index[j] : j; }

// Rows j0 .. j0+n of y, one weight row.
void FloatRow(const MatMulSlice& s, int64_t r, int64_t j0, int64_t n) {
  Lanes lanes[kXBlock] = {};
  float w[kChunk];
  const QuantTypeInfo& info = InfoOf(s.type);
  const std::byte* row = s.weights + r * s.row_bytes;
  for (int64_t c0 = 0; c0 < s.n_cols; c0 += kChunk) {
    const int64_t n_cols = std::min(kChunk, s.n_cols - c0);
    DequantizeRow(s.type, row + c0 / info.block_size * info.block_bytes, n_cols, w);
    for (int64_t j = 0; j < n; ++j) {
      const float* x = s.x + XRow(s, j0 + j) * s.n_cols + c0;
      for (int64_t i = 0; i < n_cols; ++i) {
        float& lane = lanes[j][static_cast<size_t>(i % kLanes)];
        lane = std::fma(w[i], x[i], lane);
      }
    }
  }
  for (int64_t j = 0; j < n; ++j) s.y[(j0 + j) * s.y_stride + r] = TreeSum(lanes[j]);
}

void IntegerRow(const MatMulSlice& s, int64_t r, int64_t j0, int64_t n) {
  Lanes lanes[2][kXBlock] = {};
  IntegerGroup w;
  const QuantizedRows& q = s.quantized;
  const int64_t group = q.group, n_groups = s.n_cols / group;
  for (int64_t b = 0; b < n_groups; ++b) {
    (s.repacked ? UnpackRepackedGroup : UnpackIntegerGroup)(s.type, s.weights + r * s.row_bytes, b,
                                                            &w);
    for (int64_t i = 0; i < n * q.n_terms; ++i) {
      const int64_t j = i / q.n_terms, term = i % q.n_terms;
      const int64_t x = XRow(s, j0 + j) * q.n_terms + term;
      const int8_t* codes = q.codes + x * s.n_cols + b * group;
      const float da = q.scales[x * n_groups + b];
      float& lane = lanes[term][j][static_cast<size_t>(b % kLanes)];
      int32_t sum = 0;
      for (int64_t c = 0; c < group; ++c) sum += w.weights[c] * codes[c];
      lane = std::fma(static_cast<float>(sum), w.d * da, lane);
      if (!w.has_min) continue;
      const int16_t* sums16 = q.sums16 + (x * s.n_cols + b * group) / 16;
      int32_t min_sum = 0;
      for (int64_t g = 0; g < group / 16; ++g) min_sum += w.mins[g] * sums16[g];
      lane = std::fma(static_cast<float>(min_sum), w.m * da, lane);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const float first = TreeSum(lanes[0][j]);
    s.y[(j0 + j) * s.y_stride + r] = q.n_terms == 1 ? first : first + TreeSum(lanes[1][j]);
  }
}

}  // namespace

void MatMul(const MatMulSlice& s) {
  HF_DCHECK(s.n_x == 0 || s.x != nullptr ||
            (HasIntegerKernel(s.type) && s.quantized.group == ActivationGroup(s.type)));
  for (int64_t j0 = 0; j0 < s.n_x; j0 += kXBlock) {
    const int64_t n = std::min(kXBlock, s.n_x - j0);
    for (int64_t r = s.row_begin; r < s.row_end; ++r) {
      s.x != nullptr ? FloatRow(s, r, j0, n) : IntegerRow(s, r, j0, n);
    }
  }
}

}  // namespace holdfast::scalar
