// Integer form for many activation rows (prefill, batches): 16 weight rows are unpacked once into a
// tile whose lanes are the rows, [column / 4][row][column % 4], so that one dot instruction takes
// four columns of 16 rows times four broadcast activations and nothing is summed across lanes.
// The virtual float lanes of every output lie in scratch, lanes[x][b % 16][row]; of matrices of
// fewer than 16 groups only those that are used, since the others stay +0.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_TILE_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_TILE_INL_H_

#include "ops/cpu/simd/tile_unpack-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Term rows whose lanes are kept while the columns of wider matrices pass; even.
constexpr int kTileX = 128;
// Tiles that are multiplied together, so that an activation is loaded once for all.
constexpr int kTiles = HWY_MAX_BYTES == 64 ? 2 : 1;
// Term rows in registers, and for rests of few.
constexpr int kStepX = HWY_MAX_BYTES == 64 ? 6 : HWY_MAX_BYTES == 32 ? 4 : 8;
constexpr int kSmallStepX = 4, kLeastStepX = 2;

struct TileScratch {
  Tile tiles[kTiles];
  alignas(64) float lanes[kTiles][(kTileX + kStepX) * 16 * 16];
  UnpackScratch unpack;
};

HF_INLINE TileScratch* Scratch() {
  static thread_local TileScratch scratch;
  return &scratch;
}

// acc[tile][x] += columns 4 k .. 4 k + 4 of the tiles times the codes at `offset`.
template <bool kWide, int kX>
HF_INLINE void TilesStep(I32x16 (*acc)[kX], const Tile* tiles, int k, const int8_t* const* codes,
                         int64_t offset) {
#if HWY_MAX_BYTES == 64
  TileStep2<kWide, kX>(acc[0], acc[1], tiles[0].codes[k][0], tiles[1].codes[k][0], codes, offset);
#else
  TileStep<kWide, kX>(acc[0], tiles[0].codes[k][0], codes, offset);
#endif
}

// lane = fma(float(sum), scale[row] * da, lane) for 16 rows.
HF_INLINE void AddToLane16(const I32x16& sum, const float* scale, float da, float* lane) {
  Store16(MulAdd16(ToFloat16(sum), Mul16(Load16(scale), Set16(da)), Load16(lane)), lane);
}

// The lanes of one step: term rows are `stride` floats apart, tiles `tile_stride`.
struct StepLanes {
  float* first;
  int64_t stride, tile_stride;

  HF_INLINE float* At(int tile, int x, int64_t b) const {
    return first + tile * tile_stride + x * stride + b % 16 * 16;
  }
};

// sum[tile][x] += the minima or offsets of superblock i of the tiles, b of the row.
template <int kX>
HF_INLINE void AddPairs(const Tile* tiles, int i, int64_t b, const Activations<kX>& a,
                        I32x16 (*sum)[kX]) {
  for (int p = 0; p < 8; ++p) {
    HF_UNROLL for (int t = 0; t < kTiles; ++t) {
      HF_UNROLL for (int x = 0; x < kX; ++x) {
        sum[t][x] = PairStep(sum[t][x], tiles[t].pairs[8 * i + p][0], a.sums16[x] + 16 * b + 2 * p);
      }
    }
  }
}

// Superblock i of the tiles, b of the row, for kX term rows.
template <class T, int kX>
HF_INLINE void SuperBlockStep(const Tile* tiles, int i, int64_t b, const Activations<kX>& a,
                              const StepLanes& lanes) {
  constexpr bool kOffsets = (T::kWide ? kWideOffset : T::kZ) != 0;
  I32x16 sum[kTiles][kX];
  HF_UNROLL for (int t = 0; t < kTiles; ++t) {
    HF_UNROLL for (int x = 0; x < kX; ++x) sum[t][x] = ZeroI16();
  }
  if (kOffsets) AddPairs<kX>(tiles, i, b, a, sum);
  for (int sub = 0; sub < 256 / T::kSub; ++sub) {
    I32x16 dot[kTiles][kX];
    HF_UNROLL for (int t = 0; t < kTiles; ++t) {
      HF_UNROLL for (int x = 0; x < kX; ++x) dot[t][x] = ZeroI16();
    }
    const int column = 256 * i + T::kSub * sub;
    HF_UNROLL for (int k = 0; k < T::kSub / 4; ++k) {
      TilesStep<T::kWide, kX>(dot, tiles, column / 4 + k, a.codes, 256 * b + T::kSub * sub + 4 * k);
    }
    HF_UNROLL for (int t = 0; t < kTiles; ++t) {
      const int32_t* scale = tiles[t].scales[column / T::kSub];
      HF_UNROLL for (int x = 0; x < kX; ++x) sum[t][x] = ScaleAdd16(sum[t][x], scale, dot[t][x]);
    }
  }
  HF_UNROLL for (int t = 0; t < kTiles; ++t) {
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      AddToLane16(sum[t][x], tiles[t].d[i], a.scales[x][b], lanes.At(t, x, b));
    }
  }
  if (!T::kMin) return;
  HF_UNROLL for (int t = 0; t < kTiles; ++t) {
    HF_UNROLL for (int x = 0; x < kX; ++x) sum[t][x] = ZeroI16();
  }
  AddPairs<kX>(tiles, i, b, a, sum);
  HF_UNROLL for (int t = 0; t < kTiles; ++t) {
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      AddToLane16(sum[t][x], tiles[t].m[i], a.scales[x][b], lanes.At(t, x, b));
    }
  }
}

// Group i of the tiles, b of the row, for kX term rows.
template <class T, int kX>
HF_INLINE void GroupStep(const Tile* tiles, int i, int64_t b, const Activations<kX>& a,
                         const StepLanes& lanes) {
  constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
  I32x16 sum[kTiles][kX];
  int32_t code_sum[kX];
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    code_sum[x] = a.sums16[x][2 * b] + a.sums16[x][2 * b + 1];
    HF_UNROLL for (int t = 0; t < kTiles; ++t) sum[t][x] = SetI16(-kZ * code_sum[x]);
  }
  HF_UNROLL for (int k = 0; k < 8; ++k) {
    TilesStep<T::kWide, kX>(sum, tiles, 8 * i + k, a.codes, 32 * b + 4 * k);
  }
  HF_UNROLL for (int t = 0; t < kTiles; ++t) {
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      float* lane = lanes.At(t, x, b);
      AddToLane16(sum[t][x], tiles[t].d[i], a.scales[x][b], lane);
      if (T::kMin) AddToLane16(SetI16(code_sum[x]), tiles[t].m[i], a.scales[x][b], lane);
    }
  }
}

// Adds the tiles' columns to the lanes of term rows j .. j + kX.
template <class T, int kX>
void TileColumns(const MatMulSlice& s, const Tile* tiles, int64_t column, int n_cols, int64_t j,
                 const StepLanes& lanes) {
  const Activations<kX> a(s, j);
  const int n_groups = n_cols / T::kGroup;
  const int64_t first = column / T::kGroup;
  for (int i = 0; i < n_groups; ++i) {
    if constexpr (T::kGroup == 256) {
      SuperBlockStep<T, kX>(tiles, i, first + i, a, lanes);
    } else {
      GroupStep<T, kX>(tiles, i, first + i, a, lanes);
    }
  }
}

// TreeSum of 16 outputs whose lanes from kLanes (a power of two) on are +0.
template <int kLanes>
HF_INLINE F32x16 SumLanes(const float* lanes) {
  F32x16 l[kLanes];
  HF_UNROLL for (int i = 0; i < kLanes; ++i) l[i] = Load16(lanes + 16 * i);
  HF_UNROLL for (int n = kLanes / 2; n > 0; n /= 2) {
    HF_UNROLL for (int i = 0; i < n; ++i) l[i] = Add16(l[i], l[i + n]);
  }
  return l[0];
}

template <int kLanes>
void StoreLanes(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0, int64_t n_x,
                const float* lanes) {
  constexpr int64_t kStride = kLanes * 16;
  const int64_t n_terms = s.quantized.n_terms;
  for (int64_t x = 0; x < n_x; ++x, lanes += n_terms * kStride) {
    F32x16 sum = SumLanes<kLanes>(lanes);
    if (n_terms == 2) sum = Add16(sum, SumLanes<kLanes>(lanes + kStride));
    float* y = s.y + (j0 + x) * s.y_stride + r0;
    if (n_rows == 16) {
      Store16(sum, y);
      continue;
    }
    float rows[16];
    Store16(sum, rows);
    memcpy(y, rows, static_cast<size_t>(n_rows) * sizeof(float));
  }
}

// Outputs of activation rows j0 .. j0 + n_x, from the lanes of their term rows.
void StoreTile(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0, int64_t n_x,
               const float* lanes, int n_lanes) {
  switch (n_lanes) {
    case 1:
      return StoreLanes<1>(s, r0, n_rows, j0, n_x, lanes);
    case 2:
      return StoreLanes<2>(s, r0, n_rows, j0, n_x, lanes);
    case 4:
      return StoreLanes<4>(s, r0, n_rows, j0, n_x, lanes);
    case 8:
      return StoreLanes<8>(s, r0, n_rows, j0, n_x, lanes);
    default:
      return StoreLanes<16>(s, r0, n_rows, j0, n_x, lanes);
  }
}

// y of term rows j0 .. j0 + n (at most kTileX) for weight rows r0 .. r0 + n_rows, at most those of
// kTiles; the tiles are unpacked unless they hold these rows already (`unpacked`: matrices of one
// tile's width).
template <class T>
void TileBlock(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0, int64_t n, int n_lanes,
               bool unpacked) {
  const int64_t stride = n_lanes * 16;
  TileScratch* scratch = Scratch();
  for (auto& lanes : scratch->lanes) {
    memset(lanes, 0, static_cast<size_t>((n + kStepX - 1) * stride) * sizeof(float));
  }
  for (int64_t column = 0; column < s.n_cols; column += kTileCols) {
    const int n_cols = static_cast<int>(Min(kTileCols, s.n_cols - column));
    for (int t = 0; t < kTiles && !unpacked; ++t) {
      TileSource source{.column = column, .n_cols = n_cols};
      for (int i = 0; i < 16; ++i) source.row[i] = WeightRow(s, r0 + Min(16 * t + i, n_rows - 1));
      UnpackTile<T>(source, &scratch->unpack, scratch->tiles[t]);
    }
    StepLanes lanes = {scratch->lanes[0], stride,
                       static_cast<int64_t>(sizeof scratch->lanes[0] / sizeof(float))};
    // The last term row repeats where a step has more rows than are left.
    for (int64_t x = 0; x < n;) {
      if (n - x > kSmallStepX) {
        TileColumns<T, kStepX>(s, scratch->tiles, column, n_cols, j0 + x, lanes);
        x += kStepX, lanes.first += kStepX * stride;
      } else if (n - x > kLeastStepX) {
        TileColumns<T, kSmallStepX>(s, scratch->tiles, column, n_cols, j0 + x, lanes);
        break;
      } else {
        TileColumns<T, kLeastStepX>(s, scratch->tiles, column, n_cols, j0 + x, lanes);
        break;
      }
    }
  }
  const int64_t n_terms = s.quantized.n_terms;
  for (int t = 0; t < kTiles && 16 * t < n_rows; ++t) {
    StoreTile(s, r0 + 16 * t, static_cast<int>(Min(16, n_rows - 16 * t)), j0 / n_terms, n / n_terms,
              scratch->lanes[t], n_lanes);
  }
}

template <class T>
void MatMulTiles(const MatMulSlice& s) {
  constexpr int64_t kRows = 16 * kTiles;
  const int64_t n = TermRows(s);
  int n_lanes = 1;
  while (n_lanes < 16 && n_lanes < s.n_cols / T::kGroup) n_lanes *= 2;
  for (int64_t r = s.row_begin; r < s.row_end; r += kRows) {
    const int n_rows = static_cast<int>(Min(kRows, s.row_end - r));
    for (int64_t j = 0; j < n; j += kTileX) {
      TileBlock<T>(s, r, n_rows, j, Min(kTileX, n - j), n_lanes, j > 0 && s.n_cols <= kTileCols);
    }
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_TILE_INL_H_
