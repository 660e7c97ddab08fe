// Attention of the query heads that share a KV head. Keys: 16 cells are the lanes, as the rows of a
// matmul tile are, and the heads pass over them. Values: a slice of the dimensions stays in
// registers for many heads while the cells pass, so a value is converted once for all of them.
#ifndef HOLDFAST_OPS_CPU_SIMD_ATTENTION_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_ATTENTION_INL_H_

#include "ops/cpu/scalar_kernels.h"
#include "ops/cpu/simd/attention_values-inl.h"
#include "ops/cpu/simd/rows-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Sum of the codes of a group of q, times what wide codes are moved up by.
HF_INLINE int32_t OffsetOf(const int8_t* q, int group) {
  int32_t sum = 0;
  for (int i = 0; i < group; ++i) sum += q[i];
  return kWideOffset * sum;
}

// 16 cells' codes of one group in the layout of a matmul tile.
struct KeyTile {
  alignas(64) uint8_t codes[16][16][4];
  alignas(64) float scales[16];
};

HF_INLINE void UnpackKeys(const CellPointers& cells, int first, int g, int group, KeyTile* tile) {
  alignas(64) uint8_t rows[16][64];
  for (int c = 0; c < 16; ++c) {
    const int cell = static_cast<int>(Min(first + c, cells.n - 1));
    const uint8_t* k = cells.k[cell] + g * group;
    if (group == 64) {
      Store64(kWideOffset != 0 ? XorAll(Load64(k), 0x80) : Load64(k), rows[c]);
    } else {
      for (int i = 0; i < group; ++i) rows[c][i] = k[i] ^ static_cast<uint8_t>(kWideOffset);
    }
    tile->scales[c] = LoadHalf(cells.k_scales[cell] + 2 * g);
  }
  TransposeDwords(reinterpret_cast<const uint32_t*>(rows), 16, group / 4,
                  reinterpret_cast<uint32_t*>(tile->codes));
}

// score[x] = fma(float(I_g), q_scale_g * k_scale_g, score[x]) of kX heads from `head`.
template <int kX>
HF_INLINE void GroupScores(const AttentionSlice& s, const KeyTile& tile, int64_t head, int g,
                           int group, const int32_t* offsets, float (*score)[16]) {
  const int64_t n_groups = s.head_dim / group;
  const int8_t* q[kX];
  I32x16 dot[kX];
  for (int x = 0; x < kX; ++x) q[x] = s.q_codes + (head + x) * s.head_dim + g * group;
  HF_UNROLL for (int x = 0; x < kX; ++x) dot[x] = SetI16(-offsets[x]);
  for (int k = 0; k < group / 4; ++k) TileStep<true, kX>(dot, tile.codes[k][0], q, 4 * k);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    AddToLane16(dot[x], tile.scales, s.q_scales[(head + x) * n_groups + g], score[x]);
  }
}

// Scores of heads [head, head + n_heads) with int8 cells and q codes, 16 cells at a time.
HF_INLINE void CodeScores(const AttentionSlice& s, int64_t head, int n_heads, int group) {
  const int n_groups = static_cast<int>(s.head_dim / group);
  int32_t offsets[kMaxGroups][kHeadBlock];
  for (int g = 0; g < n_groups; ++g) {
    for (int h = 0; h < n_heads; ++h) {
      offsets[g][h] = OffsetOf(s.q_codes + (head + h) * s.head_dim + g * group, group);
    }
  }
  CellPointers cells;
  KeyTile tile;
  for (CellCursor cursor(s); cursor.Next(&cells);) {
    for (int c = 0; c < cells.n; c += 16) {
      alignas(64) float score[kHeadBlock][16] = {};
      for (int g = 0; g < n_groups; ++g) {
        UnpackKeys(cells, c, g, group, &tile);
        int h = 0;
        for (; h + kHeadStep <= n_heads; h += kHeadStep) {
          GroupScores<kHeadStep>(s, tile, head + h, g, group, offsets[g] + h, score + h);
        }
        for (; h + 4 <= n_heads; h += 4) {
          GroupScores<4>(s, tile, head + h, g, group, offsets[g] + h, score + h);
        }
        for (; h < n_heads; ++h) {
          GroupScores<1>(s, tile, head + h, g, group, offsets[g] + h, score + h);
        }
      }
      const int n = static_cast<int>(Min(16, cells.n - c));
      for (int h = 0; h < n_heads; ++h) {
        float* out = s.scores + (head + h) * s.n_cells + cells.first + c;
        alignas(64) float scaled[16];
        Store16(Mul16(Load16(score[h]), Set16(s.scale)), scaled);
        memcpy(out, scaled, static_cast<size_t>(n) * sizeof(float));
      }
    }
  }
}

// q . k of dims [d0, d0 + n) for kH heads and one cell: Dot16 each.
template <class Cell, int kH>
HF_INLINE void DotCell(const AttentionSlice& s, int64_t head, const uint8_t* k, int64_t d0,
                       int64_t n, float* dot) {
  F32x16 lanes[kH];
  HF_UNROLL for (int h = 0; h < kH; ++h) lanes[h] = Zero16();
  for (int64_t d = d0; d < d0 + n; d += 16) {
    F32x16 key;
    HF_UNROLL for (int i = 0; i < kV; ++i) key.v[i] = Cell::Load(k, d + i * kN);
    HF_UNROLL for (int h = 0; h < kH; ++h) {
      lanes[h] = MulAdd16(Load16(s.q + (head + h) * s.head_dim + d), key, lanes[h]);
    }
  }
  HF_UNROLL for (int h = 0; h < kH; ++h) dot[h] = TreeSum(lanes[h]);
}

template <class Cell, int kH>
HF_INLINE void FloatScore(const AttentionSlice& s, const CellPointers& cells, int c, int64_t head,
                          int group) {
  float score[kH] = {};
  if (Cell::kScaled) {
    for (int g = 0; g * group < s.head_dim; ++g) {
      const float k_scale = LoadHalf(cells.k_scales[c] + 2 * g);
      float dot[kH];
      DotCell<Cell, kH>(s, head, cells.k[c], g * group, group, dot);
      for (int h = 0; h < kH; ++h) score[h] = __builtin_fmaf(dot[h], k_scale, score[h]);
    }
  } else {
    DotCell<Cell, kH>(s, head, cells.k[c], 0, s.head_dim, score);
  }
  for (int h = 0; h < kH; ++h) {
    s.scores[(head + h) * s.n_cells + cells.first + c] = score[h] * s.scale;
  }
}

// Scores of heads [head, head + n_heads) with q in f32.
template <class Cell>
HF_INLINE void FloatScores(const AttentionSlice& s, int64_t head, int n_heads, int group) {
  CellPointers cells;
  for (CellCursor cursor(s); cursor.Next(&cells);) {
    for (int c = 0; c < cells.n; ++c) {
      int h = 0;
      for (; h + 4 <= n_heads; h += 4) FloatScore<Cell, 4>(s, cells, c, head + h, group);
      for (; h < n_heads; ++h) FloatScore<Cell, 1>(s, cells, c, head + h, group);
    }
  }
}

HF_INLINE float MaxScore(const float* scores, int64_t n) {
  float max = -__builtin_inff();
  int64_t i = 0;
  if (n >= kN) {
    // A NaN may be skipped or kept here: it makes the whole head NaN through the sum.
    VF32 m = hn::Set(kF32, max);
    for (; i + kN <= n; i += kN) m = hn::Max(m, hn::LoadU(kF32, scores + i));
    max = hn::GetLane(hn::MaxOfLanes(kF32, m));
  }
  for (; i < n; ++i) max = scores[i] > max ? scores[i] : max;
  return max;
}

template <class Cell>
void AttentionOf(const AttentionSlice& s) {
  const int group = static_cast<int>(Min(64, s.head_dim));
  for (int64_t head = 0; head < s.n_heads; head += kHeadBlock) {
    const int n_heads = static_cast<int>(Min(kHeadBlock, s.n_heads - head));
    if (Cell::kScaled && s.q_codes != nullptr) {
      CodeScores(s, head, n_heads, group);
    } else {
      FloatScores<Cell>(s, head, n_heads, group);
    }
    float sum[kHeadBlock];
    for (int h = 0; h < n_heads; ++h) {
      float* scores = s.scores + (head + h) * s.n_cells;
      sum[h] = ExpSum(scores, MaxScore(scores, s.n_cells), s.n_cells);
    }
    WeightedValues<Cell>(s, head, n_heads, group, sum);
  }
}

void Attention(const AttentionSlice& s) {
  // Odd shapes, which no model has, take the plain code.
  const bool odd = s.head_dim % 16 != 0 || (s.head_dim > 64 && s.head_dim % 64 != 0) ||
                   s.head_dim > 64 * kMaxGroups;
  if (odd) return scalar::Attention(s);
  switch (s.format) {
    case KvFormat::kF32:
      return AttentionOf<CellF32>(s);
    case KvFormat::kF16:
      return AttentionOf<CellF16>(s);
    case KvFormat::kInt8:
      return AttentionOf<CellInt8>(s);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_ATTENTION_INL_H_
