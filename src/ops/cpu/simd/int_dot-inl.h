// Exact int8 dot products: what Highway 1.0.3 does not have, in raw intrinsics.
//
// Weights come in two ranges. Narrow codes are unsigned, at most 127: two products with an int8
// activation (never -128) fit int16, so maddubs cannot saturate. Wide codes are signed bytes; with
// VNNI they are moved to unsigned by ^ 0x80 and the sum corrected by 128 times the sum of the
// activations, without it |w| is multiplied by the activation with w's sign (128 * 127 * 2 fits).
#ifndef HOLDFAST_OPS_CPU_SIMD_INT_DOT_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_INT_DOT_INL_H_

#include "ops/cpu/simd/codes-inl.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#if defined(__AVX512VNNI__)
#define HF_VNNI 1
#else
#define HF_VNNI 0
#endif

namespace holdfast::HF_KERNEL_SET {
namespace {

// What wide codes are moved up by before unscaled dots and in tiles.
constexpr int kWideOffset = HF_VNNI ? 128 : 0;

using TagI32x4 = hn::FixedTag<int32_t, 4>;
using TagF32x4 = hn::FixedTag<float, 4>;
using I32x4 = hn::Vec<TagI32x4>;
using F32x4 = hn::Vec<TagF32x4>;

HF_INLINE uint64_t LoadU16(const uint8_t* p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

// 16 lanes of int32, lane = weight row of a tile.
struct I32x16 {
  VI32 v[kV];
};

HF_INLINE I32x16 ZeroI16() {
  I32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Zero(kI32);
  return r;
}

HF_INLINE I32x16 SetI16(int32_t x) {
  I32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Set(kI32, x);
  return r;
}

HF_INLINE F32x16 ToFloat16(const I32x16& a) {
  F32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::ConvertTo(kF32, a.v[i]);
  return r;
}

// acc + scale * a, lane by lane.
HF_INLINE I32x16 ScaleAdd16(const I32x16& acc, const int32_t* scale, const I32x16& a) {
  I32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) {
    r.v[i] = hn::Add(acc.v[i], hn::Mul(hn::LoadU(kI32, scale + i * kN), a.v[i]));
  }
  return r;
}

#if HWY_ARCH_X86

HF_INLINE float LoadHalf(const uint8_t* p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
}

// A native vector of halves as f32.
HF_INLINE VF32 LoadHalves(const uint8_t* p) {
#if HWY_MAX_BYTES == 64
  return VF32{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
#else
  return VF32{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
#endif
}

HF_INLINE F32x4 HalvesToF32x4(uint64_t halves) {
  return F32x4{_mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<int64_t>(halves)))};
}

// 16 int16: the scales or minima of the 16-column groups of 256 columns.
struct S16 {
  __m256i v;
};

HF_INLINE S16 LoadS16(const int16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
HF_INLINE void StoreS16(const S16& s, int16_t* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), s.v);
}
HF_INLINE S16 MulS16(const S16& s, int by) {
  return {_mm256_mullo_epi16(s.v, _mm256_set1_epi16(static_cast<int16_t>(by)))};
}
HF_INLINE S16 AddS16(const S16& s, int by) {
  return {_mm256_add_epi16(s.v, _mm256_set1_epi16(static_cast<int16_t>(by)))};
}
// 16 signed bytes as numbers.
HF_INLINE S16 S16FromI8(const void* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
// 8 + 8 signed bytes.
HF_INLINE S16 S16FromBytes(uint64_t low, uint64_t high) {
  return {
      _mm256_cvtepi8_epi16(_mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low)))};
}
// Byte i of even, byte i of odd, for i = 0 .. 7.
HF_INLINE S16 S16FromAlternating(uint64_t even, uint64_t odd) {
  return {_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(_mm_cvtsi64_si128(static_cast<int64_t>(even)),
                                                 _mm_cvtsi64_si128(static_cast<int64_t>(odd))))};
}
// 8 bytes, each twice.
HF_INLINE S16 S16FromBytesTwice(uint64_t bytes) {
  const __m256i v = _mm256_set1_epi64x(static_cast<int64_t>(bytes));
  const __m256i twice = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4,
                                         -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
  return {_mm256_shuffle_epi8(v, twice)};
}

// acc + pairwise a * b.
HF_INLINE __m256i MaddPairs(__m256i acc, __m256i a, __m256i b) {
#if HF_VNNI
  asm("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#else
  return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
#endif
}

// Vectors over 256 columns of a row: partial sums of the integer dot.
using PairSums = __m256i;
HF_INLINE PairSums ZeroPairSums() { return _mm256_setzero_si256(); }
HF_INLINE PairSums DotS16(const S16& a, const int16_t* b) {
  return _mm256_madd_epi16(a.v, LoadS16(b).v);
}

// by * (s[2 i] + s[2 i + 1]) for the eight pairs.
HF_INLINE void SumPairs(const S16& s, int by, I32x4* low, I32x4* high) {
  const __m256i sums = _mm256_madd_epi16(s.v, _mm256_set1_epi16(static_cast<int16_t>(by)));
  low->raw = _mm256_castsi256_si128(sums);
  high->raw = _mm256_extracti128_si256(sums, 1);
}

#if HWY_MAX_BYTES == 64

// g++ 12 surrounds the VNNI intrinsics with register copies that halve the speed of tight loops,
// hence the assembler.
HF_INLINE __m512i DotBytes(__m512i acc, __m512i unsigned_w, __m512i a) {
#if HF_VNNI
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(unsigned_w), "v"(a));
  return acc;
#else
  const __m512i pairs = _mm512_maddubs_epi16(unsigned_w, a);
  return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}

HF_INLINE __m512i MaddPairs(__m512i acc, __m512i a, __m512i b) {
#if HF_VNNI
  asm("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#else
  return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}

// a with the sign of w (zero where w is zero is not needed: |w| is zero there).
HF_INLINE __m512i WithSign(__m512i a, __m512i w) {
  return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(w), _mm512_setzero_si512(), a);
}

// The scales of 64 columns, one for every int16 that maddubs gives.
struct ScaleVec {
  __m512i v;
};
template <int c>
HF_INLINE ScaleVec ScalesOf(const S16& s) {
  constexpr int64_t k = 0x0001000100010001;
  const __m512i index =
      _mm512_setr_epi64(k * (4 * c), k * (4 * c), k * (4 * c + 1), k * (4 * c + 1), k * (4 * c + 2),
                        k * (4 * c + 2), k * (4 * c + 3), k * (4 * c + 3));
  return {_mm512_permutexvar_epi16(index, _mm512_castsi256_si512(s.v))};
}

// acc + sum of scale * w * a over 64 columns.
template <bool kWide>
HF_INLINE VI32 DotScaled(VI32 acc, const Codes64& w, const Codes64& a, const ScaleVec& scale) {
  const __m512i pairs =
      kWide ? _mm512_maddubs_epi16(_mm512_abs_epi8(w.v[0].raw), WithSign(a.v[0].raw, w.v[0].raw))
            : _mm512_maddubs_epi16(w.v[0].raw, a.v[0].raw);
  return VI32{MaddPairs(acc.raw, pairs, scale.v)};
}

HF_INLINE VI32 FromPairSums(PairSums a) { return VI32{_mm512_zextsi256_si512(a)}; }

// Unscaled dots of the two 32-column halves.
struct HalfDots {
  __m512i v;
};
HF_INLINE HalfDots ZeroHalfDots() { return {_mm512_setzero_si512()}; }
template <bool kWide>
HF_INLINE HalfDots DotHalves(const Codes64& w, const Codes64& a) {
  const __m512i zero = _mm512_setzero_si512();
  if constexpr (kWide && HF_VNNI) {
    return {DotBytes(zero, _mm512_xor_si512(w.v[0].raw, _mm512_set1_epi8(-128)), a.v[0].raw)};
  } else if constexpr (kWide) {
    return {DotBytes(zero, _mm512_abs_epi8(w.v[0].raw), WithSign(a.v[0].raw, w.v[0].raw))};
  } else {
    return {DotBytes(zero, w.v[0].raw, a.v[0].raw)};
  }
}

// Sums of four vectors within each 128-bit lane.
HF_INLINE __m512i SumWithinLanes(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

HF_INLINE I32x4 Reduce4(VI32 a, VI32 b, VI32 c, VI32 d) {
  const __m512i s = SumWithinLanes(a.raw, b.raw, c.raw, d.raw);
  const __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(s), _mm512_extracti64x4_epi64(s, 1));
  return I32x4{_mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1))};
}

HF_INLINE void ReduceHalves4(const HalfDots* rows, I32x4* first, I32x4* second) {
  const __m512i s = SumWithinLanes(rows[0].v, rows[1].v, rows[2].v, rows[3].v);
  // Lanes 0 and 1 belong to the first half.
  const __m512i h = _mm512_add_epi32(s, _mm512_shuffle_i64x2(s, s, 0xb1));
  first->raw = _mm512_castsi512_si128(h);
  second->raw = _mm256_castsi256_si128(_mm512_extracti64x4_epi64(h, 1));
}

// One step of a tile: acc[x] += 4 columns of the 16 weight rows at w times a[x][0..3].
template <bool kWide, int kX>
HF_INLINE void TileStep(I32x16* acc, const uint8_t* w, const int8_t* const* a, int64_t offset) {
  const __m512i codes = _mm512_load_si512(w);
#if HF_VNNI
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(acc[x].v[0].raw)
        : "v"(codes), "m"(*reinterpret_cast<const int32_t*>(a[x] + offset)));
  }
#else
  const __m512i magnitude = kWide ? _mm512_abs_epi8(codes) : codes;
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    int32_t four;
    memcpy(&four, a[x] + offset, sizeof four);
    const __m512i all = _mm512_set1_epi32(four);
    acc[x].v[0].raw = DotBytes(acc[x].v[0].raw, magnitude, kWide ? WithSign(all, codes) : all);
  }
#endif
}

// The same for two tiles: an activation is loaded once for both, since loads are what limits this.
template <bool kWide, int kX>
HF_INLINE void TileStep2(I32x16* acc0, I32x16* acc1, const uint8_t* w0, const uint8_t* w1,
                         const int8_t* const* a, int64_t offset) {
  const __m512i codes0 = _mm512_load_si512(w0), codes1 = _mm512_load_si512(w1);
#if HF_VNNI
  // Volatile keeps the order: the compiler's own has more activations in flight than registers.
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    __m512i all;
    asm volatile(
        "vpbroadcastd %5, %2\n\t"
        "vpdpbusd %2, %3, %0\n\t"
        "vpdpbusd %2, %4, %1"
        : "+v"(acc0[x].v[0].raw), "+v"(acc1[x].v[0].raw), "=&v"(all)
        : "v"(codes0), "v"(codes1), "m"(*reinterpret_cast<const int32_t*>(a[x] + offset)));
  }
#else
  const __m512i magnitude0 = kWide ? _mm512_abs_epi8(codes0) : codes0;
  const __m512i magnitude1 = kWide ? _mm512_abs_epi8(codes1) : codes1;
  HF_UNROLL for (int x = 0; x < kX; ++x) {
    int32_t four;
    memcpy(&four, a[x] + offset, sizeof four);
    const __m512i all = _mm512_set1_epi32(four);
    acc0[x].v[0].raw = DotBytes(acc0[x].v[0].raw, magnitude0, kWide ? WithSign(all, codes0) : all);
    acc1[x].v[0].raw = DotBytes(acc1[x].v[0].raw, magnitude1, kWide ? WithSign(all, codes1) : all);
  }
#endif
}

// acc + pairs[row] . sums[0..1].
HF_INLINE I32x16 PairStep(const I32x16& acc, const int16_t* pairs, const int16_t* sums) {
  int32_t two;
  memcpy(&two, sums, sizeof two);
  return {{VI32{MaddPairs(acc.v[0].raw, _mm512_load_si512(pairs), _mm512_set1_epi32(two))}}};
}

#else  // AVX2

struct ScaleVec {
  __m256i v[2];
};
template <int c>
HF_INLINE ScaleVec ScalesOf(const S16& s) {
  constexpr int64_t k = 0x0100010001000100;
  constexpr int64_t step = 0x0202020202020202;
  const __m256i four = _mm256_permute4x64_epi64(s.v, c * 0x55);
  return {{_mm256_shuffle_epi8(four, _mm256_setr_epi64x(k, k, k + step, k + step)),
           _mm256_shuffle_epi8(
               four, _mm256_setr_epi64x(k + 2 * step, k + 2 * step, k + 3 * step, k + 3 * step))}};
}

template <bool kWide>
HF_INLINE __m256i BytePairs(__m256i w, __m256i a) {
  return kWide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w))
               : _mm256_maddubs_epi16(w, a);
}

template <bool kWide>
HF_INLINE VI32 DotScaled(VI32 acc, const Codes64& w, const Codes64& a, const ScaleVec& scale) {
  HF_UNROLL for (int i = 0; i < 2; ++i) {
    acc.raw = MaddPairs(acc.raw, BytePairs<kWide>(w.v[i].raw, a.v[i].raw), scale.v[i]);
  }
  return acc;
}

HF_INLINE VI32 FromPairSums(PairSums a) { return VI32{a}; }

struct HalfDots {
  __m256i v[2];
};
HF_INLINE HalfDots ZeroHalfDots() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }
template <bool kWide>
HF_INLINE HalfDots DotHalves(const Codes64& w, const Codes64& a) {
  HalfDots r;
  HF_UNROLL for (int i = 0; i < 2; ++i) {
    r.v[i] = _mm256_madd_epi16(BytePairs<kWide>(w.v[i].raw, a.v[i].raw), _mm256_set1_epi16(1));
  }
  return r;
}

HF_INLINE I32x4 Reduce4(VI32 a, VI32 b, VI32 c, VI32 d) {
  const __m256i s =
      _mm256_hadd_epi32(_mm256_hadd_epi32(a.raw, b.raw), _mm256_hadd_epi32(c.raw, d.raw));
  return I32x4{_mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1))};
}

HF_INLINE void ReduceHalves4(const HalfDots* rows, I32x4* first, I32x4* second) {
  *first = Reduce4(VI32{rows[0].v[0]}, VI32{rows[1].v[0]}, VI32{rows[2].v[0]}, VI32{rows[3].v[0]});
  *second = Reduce4(VI32{rows[0].v[1]}, VI32{rows[1].v[1]}, VI32{rows[2].v[1]}, VI32{rows[3].v[1]});
}

template <bool kWide, int kX>
HF_INLINE void TileStep(I32x16* acc, const uint8_t* w, const int8_t* const* a, int64_t offset) {
  const __m256i* codes = reinterpret_cast<const __m256i*>(w);
  const __m256i one = _mm256_set1_epi16(1);
  HF_UNROLL for (int i = 0; i < 2; ++i) {
    const __m256i signed_codes = _mm256_load_si256(codes + i);
    const __m256i magnitude = kWide ? _mm256_abs_epi8(signed_codes) : signed_codes;
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      int32_t four;
      memcpy(&four, a[x] + offset, sizeof four);
      __m256i all = _mm256_set1_epi32(four);
      if (kWide) all = _mm256_sign_epi8(all, signed_codes);
      acc[x].v[i].raw = _mm256_add_epi32(
          acc[x].v[i].raw, _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, all), one));
    }
  }
}

HF_INLINE I32x16 PairStep(const I32x16& acc, const int16_t* pairs, const int16_t* sums) {
  int32_t two;
  memcpy(&two, sums, sizeof two);
  const __m256i all = _mm256_set1_epi32(two);
  const __m256i* p = reinterpret_cast<const __m256i*>(pairs);
  return {{VI32{MaddPairs(acc.v[0].raw, _mm256_load_si256(p), all)},
           VI32{MaddPairs(acc.v[1].raw, _mm256_load_si256(p + 1), all)}}};
}

#endif

HF_INLINE I32x4 ReducePairSums4(PairSums a, PairSums b, PairSums c, PairSums d) {
  const __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return I32x4{_mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1))};
}

#else  // NEON: signed dots, for narrow codes too

HF_INLINE float LoadHalf(const uint8_t* p) {
  __fp16 half;
  memcpy(&half, p, sizeof half);
  return static_cast<float>(half);
}

HF_INLINE VF32 LoadHalves(const uint8_t* p) {
  uint16x4_t bits;
  memcpy(&bits, p, sizeof bits);
  return VF32{vcvt_f32_f16(vreinterpret_f16_u16(bits))};
}

HF_INLINE F32x4 HalvesToF32x4(uint64_t halves) {
  return F32x4{vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(halves)))};
}

struct S16 {
  int16x8_t v[2];
};

HF_INLINE S16 LoadS16(const int16_t* p) { return {{vld1q_s16(p), vld1q_s16(p + 8)}}; }
HF_INLINE void StoreS16(const S16& s, int16_t* p) {
  vst1q_s16(p, s.v[0]);
  vst1q_s16(p + 8, s.v[1]);
}
HF_INLINE S16 MulS16(const S16& s, int by) {
  const int16_t factor = static_cast<int16_t>(by);
  return {{vmulq_n_s16(s.v[0], factor), vmulq_n_s16(s.v[1], factor)}};
}
HF_INLINE S16 AddS16(const S16& s, int by) {
  const int16x8_t term = vdupq_n_s16(static_cast<int16_t>(by));
  return {{vaddq_s16(s.v[0], term), vaddq_s16(s.v[1], term)}};
}
HF_INLINE S16 S16FromI8(const void* p) {
  const int8x16_t v = vld1q_s8(static_cast<const int8_t*>(p));
  return {{vmovl_s8(vget_low_s8(v)), vmovl_high_s8(v)}};
}
HF_INLINE S16 S16FromBytes(uint64_t low, uint64_t high) {
  return {{vmovl_s8(vcreate_s8(low)), vmovl_s8(vcreate_s8(high))}};
}
HF_INLINE S16 S16FromAlternating(uint64_t even, uint64_t odd) {
  const int8x8x2_t zipped = vzip_s8(vcreate_s8(even), vcreate_s8(odd));
  return {{vmovl_s8(zipped.val[0]), vmovl_s8(zipped.val[1])}};
}
HF_INLINE S16 S16FromBytesTwice(uint64_t bytes) {
  const int16x8_t v = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(bytes)));
  return {{vzip1q_s16(v, v), vzip2q_s16(v, v)}};
}

using PairSums = int32x4_t;
HF_INLINE PairSums ZeroPairSums() { return vdupq_n_s32(0); }
HF_INLINE PairSums DotS16(const S16& a, const int16_t* b) {
  const S16 other = LoadS16(b);
  int32x4_t sum = vmull_s16(vget_low_s16(a.v[0]), vget_low_s16(other.v[0]));
  sum = vmlal_high_s16(sum, a.v[0], other.v[0]);
  sum = vmlal_s16(sum, vget_low_s16(a.v[1]), vget_low_s16(other.v[1]));
  return vmlal_high_s16(sum, a.v[1], other.v[1]);
}

HF_INLINE void SumPairs(const S16& s, int by, I32x4* low, I32x4* high) {
  low->raw = vmulq_n_s32(vpaddlq_s16(s.v[0]), by);
  high->raw = vmulq_n_s32(vpaddlq_s16(s.v[1]), by);
}

struct ScaleVec {
  int32x4_t v;  // of the four 16-column groups
};
template <int c>
HF_INLINE ScaleVec ScalesOf(const S16& s) {
  const int16x8_t half = s.v[c / 2];
  return {c % 2 == 0 ? vmovl_s16(vget_low_s16(half)) : vmovl_high_s16(half)};
}

HF_INLINE int32x4_t DotBytes(int32x4_t acc, VU8 w, VU8 a) {
  return vdotq_s32(acc, vreinterpretq_s8_u8(w.raw), vreinterpretq_s8_u8(a.raw));
}

template <bool kWide>
HF_INLINE VI32 DotScaled(VI32 acc, const Codes64& w, const Codes64& a, const ScaleVec& scale) {
  const int32x4_t zero = vdupq_n_s32(0);
  acc.raw = vmlaq_laneq_s32(acc.raw, DotBytes(zero, w.v[0], a.v[0]), scale.v, 0);
  acc.raw = vmlaq_laneq_s32(acc.raw, DotBytes(zero, w.v[1], a.v[1]), scale.v, 1);
  acc.raw = vmlaq_laneq_s32(acc.raw, DotBytes(zero, w.v[2], a.v[2]), scale.v, 2);
  acc.raw = vmlaq_laneq_s32(acc.raw, DotBytes(zero, w.v[3], a.v[3]), scale.v, 3);
  return acc;
}

HF_INLINE VI32 FromPairSums(PairSums a) { return VI32{a}; }

struct HalfDots {
  int32x4_t v[2];
};
HF_INLINE HalfDots ZeroHalfDots() { return {{vdupq_n_s32(0), vdupq_n_s32(0)}}; }
template <bool kWide>
HF_INLINE HalfDots DotHalves(const Codes64& w, const Codes64& a) {
  const int32x4_t zero = vdupq_n_s32(0);
  return {{DotBytes(DotBytes(zero, w.v[0], a.v[0]), w.v[1], a.v[1]),
           DotBytes(DotBytes(zero, w.v[2], a.v[2]), w.v[3], a.v[3])}};
}

HF_INLINE I32x4 Reduce4(VI32 a, VI32 b, VI32 c, VI32 d) {
  return I32x4{vpaddq_s32(vpaddq_s32(a.raw, b.raw), vpaddq_s32(c.raw, d.raw))};
}

HF_INLINE void ReduceHalves4(const HalfDots* rows, I32x4* first, I32x4* second) {
  *first = Reduce4(VI32{rows[0].v[0]}, VI32{rows[1].v[0]}, VI32{rows[2].v[0]}, VI32{rows[3].v[0]});
  *second = Reduce4(VI32{rows[0].v[1]}, VI32{rows[1].v[1]}, VI32{rows[2].v[1]}, VI32{rows[3].v[1]});
}

HF_INLINE I32x4 ReducePairSums4(PairSums a, PairSums b, PairSums c, PairSums d) {
  return Reduce4(VI32{a}, VI32{b}, VI32{c}, VI32{d});
}

template <bool kWide, int kX>
HF_INLINE void TileStep(I32x16* acc, const uint8_t* w, const int8_t* const* a, int64_t offset) {
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(w + 16 * i));
    HF_UNROLL for (int x = 0; x < kX; ++x) {
      int32_t four;
      memcpy(&four, a[x] + offset, sizeof four);
      acc[x].v[i].raw = vdotq_s32(acc[x].v[i].raw, codes, vreinterpretq_s8_s32(vdupq_n_s32(four)));
    }
  }
}

HF_INLINE I32x16 PairStep(const I32x16& acc, const int16_t* pairs, const int16_t* sums) {
  int32_t two;
  memcpy(&two, sums, sizeof two);
  const int16x8_t all = vreinterpretq_s16_s32(vdupq_n_s32(two));
  I32x16 r;
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    const int16x8_t p = vld1q_s16(pairs + 8 * i);
    const int32x4_t low = vmull_s16(vget_low_s16(p), vget_low_s16(all));
    r.v[i].raw = vaddq_s32(acc.v[i].raw, vpaddq_s32(low, vmull_high_s16(p, all)));
  }
  return r;
}

#endif  // HWY_ARCH_X86

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_INT_DOT_INL_H_
