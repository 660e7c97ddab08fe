// Integer form for few activation rows and types of group 32, with 512-bit vectors: four weight
// rows side by side, four groups of each at a time, reduced to one vector of integers [group][row].
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_

#include "ops/cpu/simd/matmul_quads-inl.h"

#if HWY_MAX_BYTES == 64

namespace holdfast::HF_KERNEL_SET {
namespace {

// [group][row] of four groups and rows: the halves at the places that At(group, row) names; of
// groups from n on those of the last one.
template <class At>
HF_INLINE __m512 Halves4x4(int n, const At& at) {
  uint64_t four[4];
  HF_UNROLL for (int g = 0; g < 4; ++g) {
    const int64_t group = Min(g, n - 1);
    four[g] = LoadU16(at(group, 0)) | LoadU16(at(group, 1)) << 16 | LoadU16(at(group, 2)) << 32 |
              LoadU16(at(group, 3)) << 48;
  }
  return _mm512_cvtph_ps(
      _mm256_set_epi64x(static_cast<int64_t>(four[3]), static_cast<int64_t>(four[2]),
                        static_cast<int64_t>(four[1]), static_cast<int64_t>(four[0])));
}

// Value g of four in all places of 128-bit lane g.
HF_INLINE __m512i EachToLane(__m128i v) {
  const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_epi32(lane, _mm512_castsi128_si512(v));
}

// Unscaled sums of groups g and g1, each in two parts: 128-bit lanes 0 and 1 (2 and 3 for g1) hold
// those of the four rows.
template <class T, int kX>
HF_INLINE void DotTwoGroups(const uint8_t* const* row, int64_t ahead, int64_t g, int64_t g1,
                            const Activations<kX>& a, __m512i* sums) {
  __m512i dots[4][kX];
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    Prefetch<2 * T::kBlockBytes>(T::D(row[i], g) + ahead);
    const Codes64 codes = T::Codes(row[i], g, g1);
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      dots[i][x] = DotHalves<T::kWide>(codes, LoadGroups(a.codes[x], g, g1)).v;
    }
  }
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    sums[x] = SumWithinLanes(dots[0][x], dots[1][x], dots[2][x], dots[3][x]);
  }
}

// Groups g .. g + n (n <= 4) of four rows, to lanes[x] = [group % 4][row] of the groups' place.
template <class T, int kX>
HF_INLINE void AddFourGroups(const uint8_t* const* row, int64_t ahead, int64_t g, int n,
                             const Activations<kX>& a, __m512 (*lanes)[4]) {
  constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
  const __mmask16 used = static_cast<__mmask16>((1u << (4 * n)) - 1);
  const __mmask8 groups = static_cast<__mmask8>((1u << n) - 1);
  __m512i low[kX], high[kX];
  DotTwoGroups<T, kX>(row, ahead, g, g + Min(1, n - 1), a, low);
  if (n > 2) {
    DotTwoGroups<T, kX>(row, ahead, g + 2, g + n - 1, a, high);
  } else {
    HF_UNROLL for (int x = 0; x < kX; ++x) high[x] = _mm512_setzero_si512();
  }
  const __m512 d = Halves4x4(n, [&](int64_t i, int r) { return T::D(row[r], g + i); });
  __m512 m;
  if constexpr (T::kMin) {
    m = Halves4x4(n, [&](int64_t i, int r) { return T::M(row[r], g + i); });
  }
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    __m512i sum = _mm512_add_epi32(_mm512_shuffle_i32x4(low[x], high[x], 0x88),
                                   _mm512_shuffle_i32x4(low[x], high[x], 0xdd));
    __m512i code_sums;
    if (kZ != 0 || T::kMin) {
      const __m128i sums16 = _mm_maskz_loadu_epi32(groups, a.sums16[x] + 2 * g);
      code_sums = EachToLane(
          _mm_madd_epi16(sums16, _mm_set1_epi16(static_cast<int16_t>(T::kMin ? 1 : -kZ))));
    }
    if (kZ != 0) sum = _mm512_add_epi32(sum, code_sums);
    const __m512 da = _mm512_castsi512_ps(
        EachToLane(_mm_castps_si128(_mm_maskz_loadu_ps(groups, a.scales[x] + g))));
    // The other lanes stay as they are: -0 and NaN must not come from groups that are not there.
    __m512& lane = lanes[x][g / 4 % 4];
    lane = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, da), lane, used);
    if constexpr (T::kMin) {
      lane = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(code_sums), _mm512_mul_ps(m, da), lane, used);
    }
  }
}

// TreeSum of the four rows.
HF_INLINE F32x4 SumGroups(const __m512* lanes) {
  const __m512 four =
      _mm512_add_ps(_mm512_add_ps(lanes[0], lanes[2]), _mm512_add_ps(lanes[1], lanes[3]));
  const __m256 two = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps(four, 1));
  return F32x4{_mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1))};
}

// As MatMulQuads().
template <class T, int kX>
void MatMulGroups(const MatMulSlice& s) {
  const Activations<kX> a(s, 0);
  const int64_t n_groups = s.n_cols / 32;
  const int64_t ahead = QuadAhead(s);
  for (int64_t r = s.row_begin; r < s.row_end; r += 4) {
    const int64_t n_rows = Min(4, s.row_end - r);
    const uint8_t* row[4];
    HF_UNROLL for (int i = 0; i < 4; ++i) row[i] = WeightRow(s, r + Min(i, n_rows - 1));
    __m512 lanes[kX][4];
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      HF_UNROLL for (int i = 0; i < 4; ++i) lanes[x][i] = _mm512_setzero_ps();
    }
    for (int64_t g = 0; g < n_groups; g += 4) {
      AddFourGroups<T, kX>(row, ahead, g, static_cast<int>(Min(4, n_groups - g)), a, lanes);
    }
    F32x4 y[kX];
    HF_UNROLL for (int x = 0; x < kX; ++x) y[x] = SumGroups(lanes[x]);
    StoreQuad<kX>(s, r, n_rows, y);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HWY_MAX_BYTES == 64

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_GROUPS_INL_H_
