// Integer form for few activation rows and types of group 32, with 512-bit vectors: sixteen groups
// at a time are reduced to one vector of integers, whose places are the 16 lanes.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_

#include "ops/cpu/simd/matmul_rows-inl.h"

#if HWY_MAX_BYTES == 64

namespace holdfast::HF_KERNEL_SET {
namespace {

// The halves at n (1 to 16) places that At(i) names, the last one repeated.
template <class At>
HF_INLINE __m512 Halves16(int n, const At& at) {
  uint64_t four[4];
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    four[i] = LoadU16(at(Min(4 * i, n - 1))) | LoadU16(at(Min(4 * i + 1, n - 1))) << 16 |
              LoadU16(at(Min(4 * i + 2, n - 1))) << 32 | LoadU16(at(Min(4 * i + 3, n - 1))) << 48;
  }
  return _mm512_cvtph_ps(
      _mm256_set_epi64x(static_cast<int64_t>(four[3]), static_cast<int64_t>(four[2]),
                        static_cast<int64_t>(four[1]), static_cast<int64_t>(four[0])));
}

// Unscaled sums of groups first + 2 i and first + 2 i + 1, i < 4, each still in two parts: part p
// of the first ones in 128-bit lane p, of the second ones in lane 2 + p.
template <class T, int kX, bool kFull>
HF_INLINE void DotEightGroups(const uint8_t* row, int64_t first, int n, const Activations<kX>& a,
                              __m512i* sums) {
  __m512i dots[4][kX];
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    HF_UNROLL for (int x = 0; x < kX; ++x) dots[i][x] = _mm512_setzero_si512();
    if (!kFull && 2 * i >= n) continue;
    const int64_t g0 = first + 2 * i;
    const int64_t g1 = kFull ? g0 + 1 : first + Min(2 * i + 1, n - 1);
    Prefetch<2 * T::kBlockBytes>(row + g0 * T::kBlockBytes + kPrefetchBytes);
    const Codes64 codes = T::Codes(row, g0, g1);
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      dots[i][x] = DotHalves<T::kWide>(codes, LoadGroups(a.codes[x], g0, g1)).v;
    }
  }
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    sums[x] = SumWithinLanes(dots[0][x], dots[1][x], dots[2][x], dots[3][x]);
  }
}

// Groups g .. g + n (n <= 16; 16 when kFull) of a row, to their lanes.
template <class T, int kX, bool kFull>
HF_INLINE void AddSixteenGroups(const uint8_t* row, int64_t g, int n, const Activations<kX>& a,
                                __m512* lanes) {
  constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
  const __mmask16 used = static_cast<__mmask16>((1u << n) - 1);
  __m512i low[kX], high[kX];
  DotEightGroups<T, kX, kFull>(row, g, Min(n, 8), a, low);
  if (kFull || n > 8) {
    DotEightGroups<T, kX, kFull>(row, g + 8, n - 8, a, high);
  } else {
    HF_UNROLL for (int x = 0; x < kX; ++x) high[x] = _mm512_setzero_si512();
  }
  const __m512 d = Halves16(n, [&](int i) { return T::D(row, g + i); });
  __m512 m;
  if constexpr (T::kMin) m = Halves16(n, [&](int i) { return T::M(row, g + i); });
  const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    const __m512i parts = _mm512_add_epi32(_mm512_shuffle_i32x4(low[x], high[x], 0x88),
                                           _mm512_shuffle_i32x4(low[x], high[x], 0xdd));
    __m512i sum = _mm512_permutexvar_epi32(order, parts);
    __m512i code_sums;
    if (kZ != 0 || T::kMin) {
      code_sums = _mm512_madd_epi16(_mm512_maskz_loadu_epi32(used, a.sums16[x] + 2 * g),
                                    _mm512_set1_epi16(T::kMin ? 1 : -kZ));
    }
    if (kZ != 0) sum = _mm512_add_epi32(sum, code_sums);
    const __m512 da = _mm512_maskz_loadu_ps(used, a.scales[x] + g);
    // The other lanes stay as they are: -0 and NaN must not come from groups that are not there.
    lanes[x] = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, da), lanes[x], used);
    if constexpr (T::kMin) {
      lanes[x] = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(code_sums), _mm512_mul_ps(m, da),
                                       lanes[x], used);
    }
  }
}

// As MatMulRows().
template <class T, int kX>
void MatMulGroups(const MatMulSlice& s) {
  const Activations<kX> a(s, 0);
  const int64_t n_groups = s.n_cols / 32;
  for (int64_t r = s.row_begin; r < s.row_end; ++r) {
    const uint8_t* row = WeightRow(s, r);
    __m512 lanes[kX];
    HF_UNROLL for (int x = 0; x < kX; ++x) lanes[x] = _mm512_setzero_ps();
    int64_t g = 0;
    for (; g + 16 <= n_groups; g += 16) AddSixteenGroups<T, kX, true>(row, g, 16, a, lanes);
    if (g < n_groups) {
      AddSixteenGroups<T, kX, false>(row, g, static_cast<int>(n_groups - g), a, lanes);
    }
    float y[kX];
    HF_UNROLL for (int x = 0; x < kX; ++x) y[x] = TreeSum(F32x16{{VF32{lanes[x]}}});
    StoreRow<kX>(s, r, y);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HWY_MAX_BYTES == 64

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_
