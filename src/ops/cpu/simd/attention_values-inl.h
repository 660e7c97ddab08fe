// Cells of attention: where they lie, how they are read, and the weighted sum of their values.
#ifndef HOLDFAST_OPS_CPU_SIMD_ATTENTION_VALUES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_ATTENTION_VALUES_INL_H_

#include "ops/cpu/simd/matmul_tile-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Query heads whose scores and weights are in work together, cells looked up at a time, and groups
// of 64 dimensions that the fixed scratch has room for.
constexpr int kHeadBlock = 16;
// Query heads in registers.
constexpr int kHeadStep = HWY_ARCH_X86 && HWY_MAX_BYTES == 32 ? 4 : 8;
constexpr int kCellBlock = 64;
constexpr int kMaxGroups = 16;

// Native vectors of values at `d` of a cell.
struct CellF32 {
  static constexpr bool kScaled = false;
  static constexpr int kBytes = 4;
  static HF_INLINE VF32 Load(const uint8_t* cell, int64_t d) {
    return hn::LoadU(kF32, reinterpret_cast<const float*>(cell) + d);
  }
};
struct CellF16 {
  static constexpr bool kScaled = false;
  static constexpr int kBytes = 2;
  static HF_INLINE VF32 Load(const uint8_t* cell, int64_t d) { return LoadHalves(cell + 2 * d); }
};
struct CellInt8 {
  static constexpr bool kScaled = true;
  static constexpr int kBytes = 1;
  static HF_INLINE VF32 Load(const uint8_t* cell, int64_t d) {
    const hn::Rebind<int8_t, TagI32> d8;
    return hn::ConvertTo(
        kF32, hn::PromoteTo(kI32, hn::LoadU(d8, reinterpret_cast<const int8_t*>(cell) + d)));
  }
};

// Up to kCellBlock selected cells, `first` the index of the first among all selected ones.
struct CellPointers {
  const uint8_t *k[kCellBlock], *v[kCellBlock];
  const uint8_t *k_scales[kCellBlock], *v_scales[kCellBlock];
  int64_t first = 0;
  int n = 0;
};

// Walks the runs in order.
class CellCursor {
 public:
  HF_INLINE explicit CellCursor(const AttentionSlice& s) : s_(s) {
    const int64_t width = s.format == KvFormat::kF32 ? 4 : s.format == KvFormat::kF16 ? 2 : 1;
    cell_bytes_ = width * s.head_dim;
    scale_bytes_ = s.format == KvFormat::kInt8 ? 2 * (s.head_dim / Min(64, s.head_dim)) : 0;
  }

  // False when all cells have been given.
  HF_INLINE bool Next(CellPointers* out) {
    out->first = done_;
    out->n = 0;
    while (run_ < s_.n_runs && out->n < kCellBlock) {
      const CellRun& run = s_.runs[run_];
      for (; cell_ < run.n && out->n < kCellBlock; ++cell_, ++out->n) {
        out->k[out->n] = At(run.k, cell_ * cell_bytes_);
        out->v[out->n] = At(run.v, cell_ * cell_bytes_);
        out->k_scales[out->n] = At(run.k_scales, cell_ * scale_bytes_);
        out->v_scales[out->n] = At(run.v_scales, cell_ * scale_bytes_);
      }
      if (cell_ == run.n) {
        ++run_;
        cell_ = 0;
      }
    }
    done_ += out->n;
    return out->n > 0;
  }

 private:
  static HF_INLINE const uint8_t* At(const std::byte* p, int64_t offset) {
    return p == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(p) + offset;
  }

  const AttentionSlice& s_;
  int64_t cell_bytes_, scale_bytes_;
  int64_t run_ = 0, cell_ = 0, done_ = 0;
};

// out[h][d] += weights[h][c] * v_c[d] in ascending c, for kH heads and kD vectors of dimensions.
template <class Cell, int kH, int kD>
HF_INLINE void AddValues(const CellPointers& cells, const float (*weights)[kCellBlock], int64_t d,
                         float* out, int64_t head_dim) {
  VF32 acc[kH][kD];
  HF_UNROLL for (int h = 0; h < kH; ++h) {
    HF_UNROLL for (int i = 0; i < kD; ++i) {
      acc[h][i] = hn::LoadU(kF32, out + h * head_dim + d + i * kN);
    }
  }
  for (int c = 0; c < cells.n; ++c) {
    VF32 value[kD];
    HF_UNROLL for (int i = 0; i < kD; ++i) value[i] = Cell::Load(cells.v[c], d + i * kN);
    HF_UNROLL for (int h = 0; h < kH; ++h) {
      const VF32 weight = hn::Set(kF32, weights[h][c]);
      HF_UNROLL for (int i = 0; i < kD; ++i) {
        acc[h][i] = hn::MulAdd(weight, value[i], acc[h][i]);
      }
    }
  }
  HF_UNROLL for (int h = 0; h < kH; ++h) {
    HF_UNROLL for (int i = 0; i < kD; ++i) {
      hn::StoreU(acc[h][i], kF32, out + h * head_dim + d + i * kN);
    }
  }
}

// Heads that fit the registers with two vectors of dimensions each.
constexpr int kValueHeads = HWY_MAX_BYTES == 64 ? 12 : 4;

template <class Cell, int kD>
HF_INLINE void AddValuesOfHeads(const CellPointers& cells, const float (*weights)[kCellBlock],
                                int n_heads, int64_t d, float* out, int64_t head_dim) {
  int h = 0;
  for (; h + kValueHeads <= n_heads; h += kValueHeads) {
    AddValues<Cell, kValueHeads, kD>(cells, weights + h, d, out + h * head_dim, head_dim);
  }
  if constexpr (kValueHeads > 4) {
    for (; h + 4 <= n_heads; h += 4) {
      AddValues<Cell, 4, kD>(cells, weights + h, d, out + h * head_dim, head_dim);
    }
  }
  for (; h < n_heads; ++h) {
    AddValues<Cell, 1, kD>(cells, weights + h, d, out + h * head_dim, head_dim);
  }
}

// weights[h][c] = e, times the value scale of group g for int8.
template <class Cell>
HF_INLINE void FillWeights(const AttentionSlice& s, const CellPointers& cells, int64_t head,
                           int n_heads, int g, float (*weights)[kCellBlock]) {
  float v_scale[kCellBlock];
  if (Cell::kScaled) {
    for (int c = 0; c < cells.n; ++c) v_scale[c] = LoadHalf(cells.v_scales[c] + 2 * g);
  }
  for (int h = 0; h < n_heads; ++h) {
    const float* e = s.scores + (head + h) * s.n_cells + cells.first;
    for (int c = 0; c < cells.n; ++c) weights[h][c] = Cell::kScaled ? e[c] * v_scale[c] : e[c];
  }
}

// out[h] = sum of weighted values / sum[h] for heads [head, head + n_heads).
template <class Cell>
HF_INLINE void WeightedValues(const AttentionSlice& s, int64_t head, int n_heads, int group,
                              const float* sum) {
  float* out = s.out + head * s.head_dim;
  memset(out, 0, static_cast<size_t>(n_heads * s.head_dim) * sizeof(float));
  alignas(64) float weights[kHeadBlock][kCellBlock];
  CellPointers cells;
  for (CellCursor cursor(s); cursor.Next(&cells);) {
    for (int g = 0; g * group < s.head_dim; ++g) {
      if (g == 0 || Cell::kScaled) FillWeights<Cell>(s, cells, head, n_heads, g, weights);
      int64_t d = g * group;
      const int64_t end = d + group;
      for (; d + 2 * kN <= end; d += 2 * kN) {
        AddValuesOfHeads<Cell, 2>(cells, weights, n_heads, d, out, s.head_dim);
      }
      for (; d < end; d += kN) {
        AddValuesOfHeads<Cell, 1>(cells, weights, n_heads, d, out, s.head_dim);
      }
    }
  }
  for (int h = 0; h < n_heads; ++h) {
    const VF32 divisor = hn::Set(kF32, sum[h]);
    float* row = out + h * s.head_dim;
    Map(row, s.head_dim, row, [divisor](VF32 v) { return hn::Div(v, divisor); });
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_ATTENTION_VALUES_INL_H_
