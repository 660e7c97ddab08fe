// Integer form for few activation rows (decode) and types of group 256: four weight rows side by
// side, as they lie in memory, unpacked in registers. A superblock of each is reduced to four
// integers, which are the four rows' outputs, so that no width of a matrix leaves places empty.
#ifndef HOLDFAST_OPS_CPU_SIMD_MATMUL_QUADS_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_MATMUL_QUADS_INL_H_

#include "ops/cpu/simd/matmul_rows-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Memory is asked for where the next four rows have what is in work; within long rows nearer.
constexpr int64_t kNextQuadBytes = 16384, kWithinRowBytes = 1024;
// One weight row after the other leaves its sums in memory: straight code for all four would keep
// the compiler at it for minutes with 128-bit vectors.
constexpr bool kRowByRow = HWY_MAX_BYTES == 16;

// Scales, minima and their float factors of one superblock in each of four weight rows.
template <class T>
struct QuadScales {
  S16 scales[4], mins[4];
  F32x4 d, m;  // m as it is multiplied: -dmin

  HF_INLINE explicit QuadScales(const uint8_t* const* block) {
    HF_UNROLL for (int i = 0; i < 4; ++i) T::Scales(block[i], &scales[i], &mins[i]);
    d = hn::Mul(Halves4(block[0] + T::kD, block[1] + T::kD, block[2] + T::kD, block[3] + T::kD),
                hn::Set(TagF32x4(), T::kDFactor));
    if (!T::kMin) return;
    m = hn::Neg(Halves4(block[0] + T::kM, block[1] + T::kM, block[2] + T::kM, block[3] + T::kM));
  }

  // For columns 64 c .. 64 c + 64 of row i.
  template <int c>
  HF_INLINE ScaleVec Of(int i) const {
    return ScalesOf<c>(scales[i]);
  }

  // What the codes' offset adds to the dot of row i.
  HF_INLINE VI32 Offset(int i, const int16_t* sums16) const {
    return FromPairSums(DotS16(MulS16(scales[i], -T::kZ), sums16));
  }

  HF_INLINE I32x4 MinSums(const int16_t* sums16) const {
    return ReducePairSums4(DotS16(mins[0], sums16), DotS16(mins[1], sums16),
                           DotS16(mins[2], sums16), DotS16(mins[3], sums16));
  }
};

#if HWY_MAX_BYTES == 64
// Q4_K and Q5_K: the 16 bytes of each row are unpacked together, a row in each 128-bit lane.
struct QuadKScales {
  alignas(64) uint8_t scales[4][16];  // eight scales of a row and its eight minima
  __m512i low_mins, high_mins;        // int16, each twice: for sums of 16 columns
  F32x4 d, m;

  HF_INLINE explicit QuadKScales(const uint8_t* const* block) {
    const auto row = [&](int i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(block[i]));
    };
    __m512i head = _mm512_castsi128_si512(row(0));
    head = _mm512_inserti32x4(head, row(1), 1);
    head = _mm512_inserti32x4(head, row(2), 2);
    head = _mm512_inserti32x4(head, row(3), 3);
    // Words of a row: d and dmin; a: scales 0-3, b: minima 0-3, c: low bits of 4-7 of both. The two
    // upper bits of 4-7 are above those of a and b.
    const __m512i acbc = _mm512_srlv_epi32(
        _mm512_shuffle_epi32(head, static_cast<_MM_PERM_ENUM>(0xed)), InEveryLane(0, 0, 0, 4));
    const __m512i aabb =
        _mm512_srli_epi32(_mm512_shuffle_epi32(head, static_cast<_MM_PERM_ENUM>(0xa5)), 2);
    const __m512i six = _mm512_or_si512(
        _mm512_and_si512(acbc, InEveryLane(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f)),
        _mm512_and_si512(aabb, InEveryLane(0, 0x30303030, 0, 0x30303030)));
    _mm512_store_si512(scales, six);
    const __m512i mins = _mm512_unpackhi_epi8(six, _mm512_setzero_si512());
    low_mins = _mm512_unpacklo_epi16(mins, mins);
    high_mins = _mm512_unpackhi_epi16(mins, mins);
    const __m128i halves = _mm_shuffle_epi8(
        FirstOfLanes(head), _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256 factors = _mm256_cvtph_ps(halves);
    d = F32x4{_mm256_castps256_ps128(factors)};
    m = hn::Neg(F32x4{_mm256_extractf128_ps(factors, 1)});
  }

  template <int c>
  HF_INLINE ScaleVec Of(int i) const {
    // Bytes 2 c and 2 c + 1 as int16.
    const __m512i pick =
        _mm512_inserti64x4(_mm512_set1_epi16(static_cast<int16_t>(0x8000 | 2 * c)),
                           _mm256_set1_epi16(static_cast<int16_t>(0x8000 | (2 * c + 1))), 1);
    const __m128i row = _mm_load_si128(reinterpret_cast<const __m128i*>(scales[i]));
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(row), pick)};
  }

  HF_INLINE I32x4 MinSums(const int16_t* sums16) const {
    const auto* sums = reinterpret_cast<const __m128i*>(sums16);
    const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128(sums));
    const __m512i high = _mm512_broadcast_i32x4(_mm_loadu_si128(sums + 1));
    __m512i sum = MaddPairs(_mm512_madd_epi16(low_mins, low), high_mins, high);
    sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, static_cast<_MM_PERM_ENUM>(0x4e)));
    sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, static_cast<_MM_PERM_ENUM>(0xb1)));
    return I32x4{FirstOfLanes(sum)};
  }

 private:
  static HF_INLINE __m512i InEveryLane(int a, int b, int c, int d) {
    return _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d));
  }
  static HF_INLINE __m128i FirstOfLanes(__m512i v) {
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castsi512_si128(_mm512_permutexvar_epi32(first, v));
  }
};

template <>
struct QuadScales<TypeQ4_K> : QuadKScales {
  using QuadKScales::QuadKScales;
};
template <>
struct QuadScales<TypeQ5_K> : QuadKScales {
  using QuadKScales::QuadKScales;
};
#endif

template <class T, int c, int kX>
HF_INLINE void AddChunk(const uint8_t* block, const ScaleVec& scale, const Activations<kX>& a,
                        int64_t column, VI32* acc) {
  const Codes64 codes = T::template Codes<c>(block);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    acc[x] = DotScaled<T::kWide>(acc[x], codes, Load64(a.codes[x] + column + 64 * c), scale);
  }
}

// fma(float(sum), scale * da, lane) for the four rows.
HF_INLINE F32x4 AddToLane(I32x4 sum, F32x4 scale, float da, F32x4 lane) {
  const TagF32x4 d;
  return hn::MulAdd(hn::ConvertTo(d, sum), hn::Mul(scale, hn::Set(d, da)), lane);
}

// Integer sums of superblock b of weight row i with all kX term rows.
template <class T, int kX>
HF_INLINE void QuadRow(const uint8_t* block, int64_t b, int64_t ahead, int i,
                       const QuadScales<T>& scales, const Activations<kX>& a, VI32* sums) {
  VI32 sum[kX];
  Prefetch<T::kBlockBytes>(block + ahead);
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    if constexpr (T::kZ != 0) {
      sum[x] = scales.Offset(i, a.sums16[x] + b * 16);
    } else {
      sum[x] = hn::Zero(kI32);
    }
  }
  AddChunk<T, 0, kX>(block, scales.template Of<0>(i), a, b * 256, sum);
  AddChunk<T, 1, kX>(block, scales.template Of<1>(i), a, b * 256, sum);
  AddChunk<T, 2, kX>(block, scales.template Of<2>(i), a, b * 256, sum);
  AddChunk<T, 3, kX>(block, scales.template Of<3>(i), a, b * 256, sum);
  HF_UNROLL for (int x = 0; x < kX; ++x) sums[x] = sum[x];
}

// Adds superblock b of four rows to its lanes; `ahead` bytes behind it lies what is prefetched.
template <class T, int kX>
HF_INLINE void QuadStep(const uint8_t* const* block, int64_t b, int64_t ahead,
                        const Activations<kX>& a, F32x4* lanes) {
  const QuadScales<T> scales(block);
  VI32 sums[4][kX];
  if constexpr (kRowByRow) {
    for (int i = 0; i < 4; ++i) QuadRow<T, kX>(block[i], b, ahead, i, scales, a, sums[i]);
  } else {
    HF_UNROLL for (int i = 0; i < 4; ++i) {
      QuadRow<T, kX>(block[i], b, ahead, i, scales, a, sums[i]);
    }
  }
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    const float da = a.scales[x][b];
    lanes[x] =
        AddToLane(Reduce4(sums[0][x], sums[1][x], sums[2][x], sums[3][x]), scales.d, da, lanes[x]);
    if constexpr (T::kMin) {
      lanes[x] = AddToLane(scales.MinSums(a.sums16[x] + b * 16), scales.m, da, lanes[x]);
    }
  }
}

// TreeSum of the four rows, of kLanes (a power of two) lanes; the others are +0.
template <int kLanes, int kX>
HF_INLINE void SumQuads(const float (*lanes)[kX][4], F32x4* y) {
  const TagF32x4 d;
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    F32x4 l[kLanes];
    HF_UNROLL for (int i = 0; i < kLanes; ++i) l[i] = hn::Load(d, lanes[i][x]);
    HF_UNROLL for (int n = kLanes / 2; n > 0; n /= 2) {
      HF_UNROLL for (int i = 0; i < n; ++i) l[i] = hn::Add(l[i], l[i + n]);
    }
    y[x] = l[0];
  }
}

// The outputs of four weight rows, whose superblocks 0 are at `block`, with all kX term rows.
template <class T, int kX>
HF_INLINE void QuadOutputs(const uint8_t** block, int64_t n_blocks, int64_t ahead,
                           const Activations<kX>& a, F32x4* y) {
  const TagF32x4 d;
  HF_UNROLL for (int x = 0; x < kX; ++x) y[x] = hn::Zero(d);
  if (n_blocks == 1) return QuadStep<T, kX>(block, 0, ahead, a, y);
  int n_lanes = 2;
  while (n_lanes < 16 && n_lanes < n_blocks) n_lanes *= 2;
  alignas(16) float lanes[16][kX][4];
  for (int i = 0; i < n_lanes; ++i) {
    HF_UNROLL for (int x = 0; x < kX; ++x) hn::Store(y[x], d, lanes[i][x]);
  }
  for (int64_t b = 0; b < n_blocks; ++b) {
    F32x4 lane[kX];
    HF_UNROLL for (int x = 0; x < kX; ++x) lane[x] = hn::Load(d, lanes[b % 16][x]);
    QuadStep<T, kX>(block, b, ahead, a, lane);
    HF_UNROLL for (int x = 0; x < kX; ++x) hn::Store(lane[x], d, lanes[b % 16][x]);
    HF_UNROLL for (int i = 0; i < 4; ++i) block[i] += T::kBlockBytes;
  }
  switch (n_lanes) {
    case 2:
      return SumQuads<2, kX>(lanes, y);
    case 4:
      return SumQuads<4, kX>(lanes, y);
    case 8:
      return SumQuads<8, kX>(lanes, y);
    default:
      return SumQuads<16, kX>(lanes, y);
  }
}

// The first n of four outputs.
HF_INLINE void StoreFirst(F32x4 y, int64_t n, float* to) {
  const TagF32x4 d;
  if (n == 4) return hn::StoreU(y, d, to);
  float rows[4];
  hn::StoreU(y, d, rows);
  memcpy(to, rows, static_cast<size_t>(n) * sizeof(float));
}

// Stores outputs of weight rows r .. r + n (n <= 4), from those of all kX term rows.
template <int kX>
HF_INLINE void StoreQuad(const MatMulSlice& s, int64_t r, int64_t n, const F32x4* y) {
  float* out = s.y + r;
  if (kX % 2 == 0 && s.quantized.n_terms == 2) {
    HF_UNROLL for (int x = 0; x + 1 < kX; x += 2, out += s.y_stride) {
      StoreFirst(hn::Add(y[x], y[x + 1]), n, out);
    }
    return;
  }
  HF_UNROLL for (int x = 0; x < kX; ++x, out += s.y_stride) StoreFirst(y[x], n, out);
}

HF_INLINE int64_t QuadAhead(const MatMulSlice& s) {
  return 4 * s.row_bytes <= kNextQuadBytes ? 4 * s.row_bytes : kWithinRowBytes;
}

// y of all kX term rows for all weight rows of the slice.
template <class T, int kX>
void MatMulQuads(const MatMulSlice& s) {
  const Activations<kX> a(s, 0);
  const int64_t ahead = QuadAhead(s);
  for (int64_t r = s.row_begin; r < s.row_end; r += 4) {
    const int64_t n_rows = Min(4, s.row_end - r);
    const uint8_t* block[4];
    // Past the last row it repeats.
    HF_UNROLL for (int i = 0; i < 4; ++i) block[i] = WeightRow(s, r + Min(i, n_rows - 1));
    F32x4 y[kX];
    QuadOutputs<T, kX>(block, s.n_cols / 256, ahead, a, y);
    StoreQuad<kX>(s, r, n_rows, y);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_MATMUL_QUADS_INL_H_
