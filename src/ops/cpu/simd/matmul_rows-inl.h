// Integer form for few activation rows (decode): four weight rows at a time, each streamed once and
// unpacked in registers. The float lanes hold the four rows side by side: lanes[b % 16][x][row].
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_

#include "ops/cpu/simd/grid_types-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

constexpr int kRows = 4;
// Activation rows that the row kernels take at once; more go to the tile kernel.
constexpr int kMaxRowsX = 3;

// Asks for the block of the next four rows at the same column: rows are too short for the
// hardware's stream prefetchers to help much.
template <int kBlockBytes>
HF_INLINE void PrefetchNextRows(const MatMulSlice& s, const uint8_t* block) {
  HF_UNROLL for (int i = 0; i < kBlockBytes; i += 64) {
    __builtin_prefetch(block + kRows * s.row_bytes + i);
  }
}

HF_INLINE const uint8_t* WeightRow(const MatMulSlice& s, int64_t r) {
  return reinterpret_cast<const uint8_t*>(s.weights) + r * s.row_bytes;
}

HF_INLINE int64_t XRow(const MatMulSlice& s, int64_t j) {
  return s.x_index != nullptr ? s.x_index[j] : j;
}

// Quantised activation rows of one call of a kernel.
template <int kX>
struct Activations {
  const int8_t* codes[kX];
  const float* scales[kX];
  const int16_t* sums16[kX];

  HF_INLINE Activations(const MatMulSlice& s, int64_t j0) {
    for (int x = 0; x < kX; ++x) {
      const int64_t row = XRow(s, j0 + x);
      codes[x] = s.quantized.codes + row * s.n_cols;
      scales[x] = s.quantized.scales + row * (s.n_cols / s.quantized.group);
      sums16[x] = s.quantized.sums16 + row * (s.n_cols / 16);
    }
  }
};

// Four halves from four places, put together in scalar registers, which have time.
HF_INLINE F32x4 Halves4(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  return HalvesToF32x4(LoadU16(a) | LoadU16(b) << 16 | LoadU16(c) << 32 | LoadU16(d) << 48);
}

// lane = fma(float(sum), scale * da, lane) for four rows.
HF_INLINE void AddToLane(I32x4 sum, F32x4 scale, float da, float* lane) {
  const TagF32x4 d;
  const F32x4 factor = hn::Mul(scale, hn::Set(d, da));
  hn::Store(hn::MulAdd(hn::ConvertTo(d, sum), factor, hn::Load(d, lane)), d, lane);
}

// y of kX activation rows from their lanes.
template <int kX>
HF_INLINE void StoreRows(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0,
                         float (*lanes)[kX][kRows]) {
  const TagF32x4 d;
  for (int stride = 8; stride > 0; stride /= 2) {
    for (int i = 0; i < stride; ++i) {
      HF_UNROLL for (int x = 0; x < kX; ++x) {
        hn::Store(hn::Add(hn::Load(d, lanes[i][x]), hn::Load(d, lanes[i + stride][x])), d,
                  lanes[i][x]);
      }
    }
  }
  for (int x = 0; x < kX; ++x) {
    for (int i = 0; i < n_rows; ++i) s.y[(j0 + x) * s.y_stride + r0 + i] = lanes[0][x][i];
  }
}

template <class T, int c, int kX>
HF_INLINE void AddChunk(const uint8_t* block, const S16& scales, const Activations<kX>& a,
                        int64_t column, VI32 (*acc)[kRows], int row) {
  const Codes64 codes = T::template Codes<c>(block);
  const ScaleVec scale = ScalesOf<c>(scales);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    acc[x][row] =
        DotScaled<T::kWide>(acc[x][row], codes, Load64(a.codes[x] + column + 64 * c), scale);
  }
}

// Types of group 256.
template <class T, int kX>
HF_INLINE void SuperBlockRows(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0) {
  const Activations<kX> a(s, j0);
  const uint8_t* w[kRows];
  for (int i = 0; i < kRows; ++i) w[i] = WeightRow(s, r0 + Min(i, n_rows - 1));
  alignas(16) float lanes[16][kX][kRows] = {};
  const int64_t n_blocks = s.n_cols / 256;
  for (int64_t b = 0; b < n_blocks; ++b) {
    VI32 acc[kX][kRows];
    PairSums mins[kX][kRows];
    HF_UNROLL for (int i = 0; i < kRows; ++i) {
      const uint8_t* block = w[i] + b * T::kBlockBytes;
      PrefetchNextRows<T::kBlockBytes>(s, block);
      S16 scales, min_scales;
      T::Scales(block, &scales, &min_scales);
      S16 offsets;
      if (T::kZ != 0) offsets = MulS16(scales, -T::kZ);
      HF_UNROLL for (int x = 0; x < kX; ++x) {
        const int16_t* sums16 = a.sums16[x] + b * 16;
        acc[x][i] = T::kZ != 0 ? FromPairSums(DotS16(offsets, sums16)) : hn::Zero(kI32);
        if (T::kMin) mins[x][i] = DotS16(min_scales, sums16);
      }
      AddChunk<T, 0, kX>(block, scales, a, b * 256, acc, i);
      AddChunk<T, 1, kX>(block, scales, a, b * 256, acc, i);
      AddChunk<T, 2, kX>(block, scales, a, b * 256, acc, i);
      AddChunk<T, 3, kX>(block, scales, a, b * 256, acc, i);
    }
    const int64_t at = b * T::kBlockBytes;
    const F32x4 halves =
        Halves4(w[0] + at + T::kD, w[1] + at + T::kD, w[2] + at + T::kD, w[3] + at + T::kD);
    const F32x4 d = hn::Mul(halves, hn::Set(TagF32x4(), T::kDFactor));
    F32x4 m = d;
    if (T::kMin) {
      m = hn::Neg(
          Halves4(w[0] + at + T::kM, w[1] + at + T::kM, w[2] + at + T::kM, w[3] + at + T::kM));
    }
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      const float da = a.scales[x][b];
      float* lane = lanes[b % 16][x];
      AddToLane(Reduce4(acc[x][0], acc[x][1], acc[x][2], acc[x][3]), d, da, lane);
      if (T::kMin) {
        AddToLane(ReducePairSums4(mins[x][0], mins[x][1], mins[x][2], mins[x][3]), m, da, lane);
      }
    }
  }
  StoreRows<kX>(s, r0, n_rows, j0, lanes);
}

// Sums of the activation codes of eight groups from g on (fewer at the end of a row), times by.
HF_INLINE void GroupSums(const int16_t* sums16, int64_t g, int64_t n_groups, int by, int32_t* out) {
  if (g + 8 <= n_groups) {
    StorePairSums(LoadS16(sums16 + 2 * g), by, out);
    return;
  }
  for (int64_t i = g; i < n_groups; ++i) out[i - g] = by * (sums16[2 * i] + sums16[2 * i + 1]);
}

template <class T>
HF_INLINE void AddGroup(const uint8_t* const* w, int64_t g, I32x4 sum, int32_t code_sum, float da,
                        float* lane) {
  constexpr bool kOffset = (T::kWide ? kWideOffset : T::kZ) != 0;
  const F32x4 d = Halves4(T::D(w[0], g), T::D(w[1], g), T::D(w[2], g), T::D(w[3], g));
  if (kOffset) sum = hn::Add(sum, hn::Set(TagI32x4(), code_sum));
  AddToLane(sum, d, da, lane);
  if constexpr (T::kMin) {
    const F32x4 m = Halves4(T::M(w[0], g), T::M(w[1], g), T::M(w[2], g), T::M(w[3], g));
    AddToLane(hn::Set(TagI32x4(), code_sum), m, da, lane);
  }
}

// Types of group 32: two groups at a time.
template <class T, int kX>
HF_INLINE void GroupRows(const MatMulSlice& s, int64_t r0, int n_rows, int64_t j0) {
  const Activations<kX> a(s, j0);
  const uint8_t* w[kRows];
  for (int i = 0; i < kRows; ++i) w[i] = WeightRow(s, r0 + Min(i, n_rows - 1));
  alignas(16) float lanes[16][kX][kRows] = {};
  // What corrects the codes' offset, or the sums that a minimum is multiplied by.
  constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
  int32_t code_sums[kX][8];
  const int64_t n_groups = s.n_cols / 32;
  for (int64_t g = 0; g < n_groups; g += 2) {
    const int64_t g1 = Min(g + 1, n_groups - 1);
    if ((T::kMin || kZ != 0) && g % 8 == 0) {
      for (int x = 0; x < kX; ++x) {
        GroupSums(a.sums16[x], g, n_groups, T::kMin ? 1 : -kZ, code_sums[x]);
      }
    }
    HalfDots dots[kX][kRows];
    HF_UNROLL for (int i = 0; i < kRows; ++i) {
      PrefetchNextRows<2 * T::kBlockBytes>(s, T::D(w[i], g));
      const Codes64 codes = T::Codes(w[i], g, g1);
      HF_UNROLL for (int x = 0; x < kX; ++x) {
        dots[x][i] =
            DotHalves<T::kWide>(codes, Load32x2(a.codes[x] + 32 * g, a.codes[x] + 32 * g1));
      }
    }
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      I32x4 first, second;
      ReduceHalves4(dots[x], &first, &second);
      const int32_t* sums = code_sums[x];
      AddGroup<T>(w, g, first, sums[g % 8], a.scales[x][g], lanes[g % 16][x]);
      if (g1 == g) continue;
      AddGroup<T>(w, g1, second, sums[g1 % 8], a.scales[x][g1], lanes[g1 % 16][x]);
    }
  }
  StoreRows<kX>(s, r0, n_rows, j0, lanes);
}

// y of activation rows j0 .. j0 + kX for all weight rows of the slice.
template <class T, int kX>
void MatMulRows(const MatMulSlice& s, int64_t j0) {
  for (int64_t r = s.row_begin; r < s.row_end; r += kRows) {
    const int n_rows = static_cast<int>(Min(kRows, s.row_end - r));
    if constexpr (T::kGroup == 256) {
      SuperBlockRows<T, kX>(s, r, n_rows, j0);
    } else {
      GroupRows<T, kX>(s, r, n_rows, j0);
    }
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_
