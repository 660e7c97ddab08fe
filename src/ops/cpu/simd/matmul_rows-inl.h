// Integer form for few activation rows (decode) and types of group 32: weight rows are streamed one
// after the other, as they lie in memory, and unpacked in registers. Groups are reduced four at a
// time to integers that are neighbours among the 16 lanes.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_

#include "ops/cpu/simd/grid_types-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// How far ahead of the block in work memory is asked for, over the ends of rows: rows are short for
// the hardware's stream prefetchers.
constexpr int kPrefetchBytes = 4096;

HF_INLINE const uint8_t* WeightRow(const MatMulSlice& s, int64_t r) {
  return reinterpret_cast<const uint8_t*>(s.weights) + r * s.row_bytes;
}

HF_INLINE int64_t XRow(const MatMulSlice& s, int64_t j) {
  return s.x_index != nullptr ? s.x_index[j] : j;
}

// Quantised activation rows as the products see them: a row of two terms counts as two.
HF_INLINE int64_t TermRows(const MatMulSlice& s) { return s.n_x * s.quantized.n_terms; }

// Term rows j0 .. j0 + kX; past the end the last one repeats.
template <int kX>
struct Activations {
  const int8_t* codes[kX];
  const float* scales[kX];
  const int16_t* sums16[kX];

  HF_INLINE Activations(const MatMulSlice& s, int64_t j0) {
    for (int x = 0; x < kX; ++x) {
      const int64_t n_terms = s.quantized.n_terms;
      const int64_t j = Min(j0 + x, TermRows(s) - 1);
      const int64_t row = n_terms == 1 ? XRow(s, j) : XRow(s, j / 2) * 2 + j % 2;
      codes[x] = s.quantized.codes + row * s.n_cols;
      scales[x] = s.quantized.scales + row * (s.n_cols / s.quantized.group);
      sums16[x] = s.quantized.sums16 + row * (s.n_cols / 16);
    }
  }
};

template <int kN>
HF_INLINE void Prefetch(const uint8_t* p) {
  HF_UNROLL for (int i = 0; i < kN; i += 64) __builtin_prefetch(p + i);
}

// Four halves from four places, put together in scalar registers, which have time.
HF_INLINE F32x4 Halves4(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  return HalvesToF32x4(LoadU16(a) | LoadU16(b) << 16 | LoadU16(c) << 32 | LoadU16(d) << 48);
}

// The first n (1..3) of four floats, zeros behind them; memory behind them is not touched.
HF_INLINE F32x4 LoadFirst(const float* p, int64_t n) {
  const TagF32x4 d;
#if HWY_ARCH_X86
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  float first[4] = {};
  for (int64_t i = 0; i < n; ++i) first[i] = p[i];
  return hn::LoadU(d, first);
#endif
}

// lane = fma(float(sum), scale * da, lane) for n of four neighbours; lanes is aligned.
HF_INLINE void AddToLanes4(I32x4 sum, F32x4 scale, const float* da, int64_t n, float* lanes) {
  const TagF32x4 d;
  const F32x4 old = hn::Load(d, lanes);
  if (n >= 4) {
    const F32x4 factor = hn::Mul(scale, hn::LoadU(d, da));
    hn::Store(hn::MulAdd(hn::ConvertTo(d, sum), factor, old), d, lanes);
  } else if (n > 0) {
    const F32x4 factor = hn::Mul(scale, LoadFirst(da, n));
    const F32x4 added = hn::MulAdd(hn::ConvertTo(d, sum), factor, old);
    // A lane of -0 must not meet +0, nor any lane the scale of another block.
    hn::Store(hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n)), added, old), d, lanes);
  }
}

// by * the sums of the activation codes of groups g .. g + n (n <= 8).
HF_INLINE void GroupSums(const int16_t* sums16, int64_t g, int64_t n, int by, I32x4* low,
                         I32x4* high) {
  if (n == 8) return SumPairs(LoadS16(sums16 + 2 * g), by, low, high);
  int32_t sums[8] = {};
  for (int64_t i = 0; i < n; ++i) sums[i] = by * (sums16[2 * (g + i)] + sums16[2 * (g + i) + 1]);
  *low = hn::LoadU(TagI32x4(), sums);
  *high = hn::LoadU(TagI32x4(), sums + 4);
}

// Activation codes of groups g0 and g1.
HF_INLINE Codes64 LoadGroups(const int8_t* codes, int64_t g0, int64_t g1) {
  return g1 > g0 ? Load64(codes + 32 * g0) : Load32x2(codes + 32 * g0, codes + 32 * g0);
}

// Groups g .. g + n of a row of a type of group 32; n is 8, or fewer when not kFull.
template <class T, int kX, bool kFull>
HF_INLINE void AddGroups(const uint8_t* row, int64_t g, int64_t n_left, const Activations<kX>& a,
                         float (*lanes)[16]) {
  constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
  const int64_t n = kFull ? 8 : n_left;
  const TagI32x4 d4;
  HalfDots dots[kX][4];
  const uint8_t *d[8], *m[8];
  HF_UNROLL for (int i = 0; i < 8; ++i) {
    d[i] = T::D(row, g + Min(i, n - 1));
    if constexpr (T::kMin) m[i] = T::M(row, g + Min(i, n - 1));
  }
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    HF_UNROLL for (int x = 0; x < kX; ++x) dots[x][i] = ZeroHalfDots();
    if (2 * i >= n) continue;
    const int64_t g0 = g + 2 * i, g1 = g + Min(2 * i + 1, n - 1);
    Prefetch<2 * T::kBlockBytes>(d[2 * i] + kPrefetchBytes);
    const Codes64 codes = T::Codes(row, g0, g1);
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      dots[x][i] = DotHalves<T::kWide>(codes, LoadGroups(a.codes[x], g0, g1));
    }
  }
  const F32x4 d_low = Halves4(d[0], d[1], d[2], d[3]), d_high = Halves4(d[4], d[5], d[6], d[7]);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    I32x4 even, odd;
    ReduceHalves4(dots[x], &even, &odd);
    I32x4 low = hn::InterleaveLower(d4, even, odd), high = hn::InterleaveUpper(d4, even, odd);
    I32x4 sums_low, sums_high;
    if (kZ != 0 || T::kMin) {
      GroupSums(a.sums16[x], g, n, T::kMin ? 1 : -kZ, &sums_low, &sums_high);
    }
    if (kZ != 0) {
      low = hn::Add(low, sums_low);
      high = hn::Add(high, sums_high);
    }
    const float* da = a.scales[x] + g;
    float* lane = lanes[x] + g % 16;
    AddToLanes4(low, d_low, da, n, lane);
    AddToLanes4(high, d_high, da + 4, n - 4, lane + 4);
    if constexpr (T::kMin) {
      AddToLanes4(sums_low, Halves4(m[0], m[1], m[2], m[3]), da, n, lane);
      AddToLanes4(sums_high, Halves4(m[4], m[5], m[6], m[7]), da + 4, n - 4, lane + 4);
    }
  }
}

// TreeSum in the pieces that the lanes were written in, so that no load waits for several stores.
HF_INLINE float TreeSumOf(const float* lanes) {
  const TagF32x4 d;
  return TreeSum4(hn::Add(hn::Add(hn::Load(d, lanes), hn::Load(d, lanes + 8)),
                          hn::Add(hn::Load(d, lanes + 4), hn::Load(d, lanes + 12))));
}

// Stores the outputs of weight row r, from those of all kX term rows.
template <int kX>
HF_INLINE void StoreRow(const MatMulSlice& s, int64_t r, const float* y) {
  if (kX % 2 == 0 && s.quantized.n_terms == 2) {
    for (int x = 0; x + 1 < kX; x += 2) s.y[x / 2 * s.y_stride + r] = y[x] + y[x + 1];
    return;
  }
  for (int x = 0; x < kX; ++x) s.y[x * s.y_stride + r] = y[x];
}

// y of all kX term rows for all weight rows of the slice.
template <class T, int kX>
void MatMulRows(const MatMulSlice& s) {
  const Activations<kX> a(s, 0);
  const int64_t n_groups = s.n_cols / 32;
  for (int64_t r = s.row_begin; r < s.row_end; ++r) {
    const uint8_t* row = WeightRow(s, r);
    alignas(16) float lanes[kX][16];
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      HF_UNROLL for (int i = 0; i < 16; i += 4) {
        hn::Store(hn::Zero(TagF32x4()), TagF32x4(), lanes[x] + i);
      }
    }
    int64_t g = 0;
    for (; g + 8 <= n_groups; g += 8) AddGroups<T, kX, true>(row, g, 8, a, lanes);
    if (g < n_groups) AddGroups<T, kX, false>(row, g, n_groups - g, a, lanes);
    float y[kX];
    for (int x = 0; x < kX; ++x) y[x] = TreeSumOf(lanes[x]);
    StoreRow<kX>(s, r, y);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_ROWS_INL_H_
