#include <algorithm>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/scalar_math.h"

namespace holdfast::scalar {
namespace {

float HalfAt(const std::byte* p, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, p + 2 * i, sizeof bits);
  return HalfToFloat(bits);
}

float FloatAt(const std::byte* p, int64_t i) {
  float value;
  std::memcpy(&value, p + 4 * i, sizeof value);
  return value;
}

// Value d of a cell as a number: for int8 the bare code.
float ValueAt(KvFormat format, const std::byte* cell, int64_t d) {
  switch (format) {
    case KvFormat::kF32:
      return FloatAt(cell, d);
    case KvFormat::kF16:
      return HalfAt(cell, d);
    case KvFormat::kInt8:
      break;
  }
  return static_cast<float>(static_cast<int8_t>(cell[d]));
}

int64_t CellBytes(KvFormat format, int64_t head_dim) {
  return format == KvFormat::kF32   ? 4 * head_dim
         : format == KvFormat::kF16 ? 2 * head_dim
                                    : head_dim;
}

// Lane sums of q . k over dims [begin, end), begin a multiple of 16.
float DotCell(KvFormat format, const float* q, const std::byte* k, int64_t begin, int64_t end) {
  Lanes l{};
  for (int64_t d = begin; d < end; ++d) {
    float& lane = l[static_cast<size_t>((d - begin) % kLanes)];
    lane = std::fma(q[d], ValueAt(format, k, d), lane);
  }
  return TreeSum(l);
}

float Score(const AttentionSlice& s, int64_t head, const std::byte* k, const std::byte* k_scales) {
  const float* q = s.q != nullptr ? s.q + head * s.head_dim : nullptr;
  if (s.format != KvFormat::kInt8) return DotCell(s.format, q, k, 0, s.head_dim) * s.scale;
  const int64_t group = std::min<int64_t>(64, s.head_dim), n_groups = s.head_dim / group;
  float sum = 0.0f;
  for (int64_t g = 0; g < n_groups; ++g) {
    const float k_scale = HalfAt(k_scales, g);
    if (s.q_codes == nullptr) {
      sum = std::fma(DotCell(s.format, q, k, g * group, (g + 1) * group), k_scale, sum);
      continue;
    }
    const int8_t* codes = s.q_codes + head * s.head_dim;
    int32_t dot = 0;
    for (int64_t d = g * group; d < (g + 1) * group; ++d) {
      dot += codes[d] * static_cast<int8_t>(k[d]);
    }
    sum = std::fma(static_cast<float>(dot), s.q_scales[head * n_groups + g] * k_scale, sum);
  }
  return sum * s.scale;
}

// Calls fn(i, run, cell) for every selected cell in ascending position.
template <typename Fn>
void ForEachCell(const AttentionSlice& s, Fn fn) {
  int64_t i = 0;
  for (int64_t r = 0; r < s.n_runs; ++r) {
    for (int64_t c = 0; c < s.runs[r].n; ++c) fn(i++, s.runs[r], c);
  }
}

}  // namespace

void Attention(const AttentionSlice& s) {
  const int64_t cell_bytes = CellBytes(s.format, s.head_dim);
  const int64_t group = std::min<int64_t>(64, s.head_dim), n_groups = s.head_dim / group;
  for (int64_t head = 0; head < s.n_heads; ++head) {
    float* scores = s.scores + head * s.n_cells;
    float* out = s.out + head * s.head_dim;
    float max = -std::numeric_limits<float>::infinity();
    ForEachCell(s, [&](int64_t i, const CellRun& run, int64_t c) {
      const std::byte* k_scales =
          run.k_scales == nullptr ? nullptr : run.k_scales + 2 * n_groups * c;
      scores[i] = Score(s, head, run.k + c * cell_bytes, k_scales);
      max = scores[i] > max ? scores[i] : max;
    });
    const float sum = ExpSum(scores, max, s.n_cells);
    std::fill(out, out + s.head_dim, 0.0f);
    ForEachCell(s, [&](int64_t i, const CellRun& run, int64_t c) {
      const std::byte* v = run.v + c * cell_bytes;
      for (int64_t d = 0; d < s.head_dim; ++d) {
        float w = scores[i];
        if (s.format == KvFormat::kInt8) w *= HalfAt(run.v_scales, n_groups * c + d / group);
        out[d] = std::fma(w, ValueAt(s.format, v, d), out[d]);
      }
    });
    for (int64_t d = 0; d < s.head_dim; ++d) out[d] /= sum;
  }
}

}  // namespace holdfast::scalar
