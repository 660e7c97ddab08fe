// 64 weight codes in native vectors, and the bit work that unpacks them from blocks.
#ifndef HOLDFAST_OPS_CPU_SIMD_CODES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_CODES_INL_H_

#include "ops/cpu/simd/simd-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

constexpr int kBytes = HWY_MAX_BYTES;
constexpr int kC = 64 / kBytes;  // native vectors of a Codes64

// Codes of 64 neighbouring columns, in order.
struct Codes64 {
  VU8 v[kC];
};

using TagU32 = hn::ScalableTag<uint32_t>;
constexpr TagU32 kU32;

HF_INLINE Codes64 Load64(const void* p) {
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    r.v[i] = hn::LoadU(kU8, static_cast<const uint8_t*>(p) + i * kBytes);
  }
  return r;
}

HF_INLINE void Store64(const Codes64& a, uint8_t* p) {
  HF_UNROLL for (int i = 0; i < kC; ++i) hn::StoreU(a.v[i], kU8, p + i * kBytes);
}

// 32 bytes from each of two places.
HF_INLINE Codes64 Load32x2(const void* p0, const void* p1) {
  Codes64 r;
#if HWY_MAX_BYTES == 64
  r.v[0] = VU8{_mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_loadu_si256(static_cast<const __m256i*>(p0))),
      _mm256_loadu_si256(static_cast<const __m256i*>(p1)), 1)};
#else
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    const uint8_t* p = static_cast<const uint8_t*>(i < kC / 2 ? p0 : p1);
    r.v[i] = hn::LoadU(kU8, p + i % (kC / 2) * kBytes);
  }
#endif
  return r;
}

// The same 32 bytes twice.
HF_INLINE Codes64 Dup32(const void* p) {
#if HWY_MAX_BYTES == 64
  Codes64 r;
  r.v[0] = VU8{_mm512_broadcast_i64x4(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  return r;
#else
  return Load32x2(p, p);
#endif
}

// 16 bytes from each of two places, each twice: p0 p0 p1 p1.
HF_INLINE Codes64 Dup16x2(const void* p0, const void* p1) {
  Codes64 r;
#if HWY_MAX_BYTES == 64
  const __m256i a = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p0)));
  const __m256i b = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p1)));
  r.v[0] = VU8{_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)};
#else
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    r.v[i] = hn::LoadDup128(kU8, static_cast<const uint8_t*>(i < kC / 2 ? p0 : p1));
  }
#endif
  return r;
}

// Shifts every quarter (16 bytes) right by its own amount, as 32-bit numbers, and keeps the bits in
// `mask` of each byte; right for bytes as long as amount + width of the mask <= 8.
template <int k0, int k1, int k2, int k3>
HF_INLINE Codes64 ShiftQuarters(const Codes64& a, uint8_t mask) {
  const VU8 keep = hn::Set(kU8, mask);
  Codes64 r;
#if HWY_MAX_BYTES == 64
  const __m512i by =
      _mm512_set_epi32(k3, k3, k3, k3, k2, k2, k2, k2, k1, k1, k1, k1, k0, k0, k0, k0);
  r.v[0] = hn::And(VU8{_mm512_srlv_epi32(a.v[0].raw, by)}, keep);
#elif HWY_MAX_BYTES == 32
  const __m256i by0 = _mm256_set_epi32(k1, k1, k1, k1, k0, k0, k0, k0);
  const __m256i by1 = _mm256_set_epi32(k3, k3, k3, k3, k2, k2, k2, k2);
  r.v[0] = hn::And(VU8{_mm256_srlv_epi32(a.v[0].raw, by0)}, keep);
  r.v[1] = hn::And(VU8{_mm256_srlv_epi32(a.v[1].raw, by1)}, keep);
#else
  r.v[0] = hn::And(hn::ShiftRight<k0>(a.v[0]), keep);
  r.v[1] = hn::And(hn::ShiftRight<k1>(a.v[1]), keep);
  r.v[2] = hn::And(hn::ShiftRight<k2>(a.v[2]), keep);
  r.v[3] = hn::And(hn::ShiftRight<k3>(a.v[3]), keep);
#endif
  return r;
}

// The same for halves (32 bytes).
template <int k0, int k1>
HF_INLINE Codes64 ShiftHalves(const Codes64& a, uint8_t mask) {
  return ShiftQuarters<k0, k0, k1, k1>(a, mask);
}

// a | (b << kBy), byte by byte; b has no bits that would leave the byte.
template <int kBy>
HF_INLINE Codes64 OrShifted(const Codes64& a, const Codes64& b) {
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    const auto shifted = hn::BitCast(kU8, hn::ShiftLeft<kBy>(hn::BitCast(kU32, b.v[i])));
    r.v[i] = hn::Or(a.v[i], shifted);
  }
  return r;
}

// (a >> kLow & 15) | (b >> k0 or k1 & kMask) << 4: the low four bits of codes, and those above
// them, k0 for the first 32 bytes and k1 for the others; kLow is 0 or 4.
template <int kLow, int k0, int k1, int kMask>
HF_INLINE Codes64 JoinBits(const Codes64& a, const Codes64& b) {
#if HWY_MAX_BYTES == 64
  // Bits that come from other bytes are masked away.
  const __m512i by =
      _mm512_inserti64x4(_mm512_set1_epi32((36 - k0) % 32), _mm256_set1_epi32((36 - k1) % 32), 1);
  const __m512i low = kLow == 0 ? a.v[0].raw : _mm512_srli_epi16(a.v[0].raw, kLow);
  const __m512i high = _mm512_rolv_epi32(b.v[0].raw, by);
  constexpr int kFirstChooses = 0xca;
  const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, kFirstChooses);
  Codes64 r;
  r.v[0] = VU8{_mm512_and_si512(both, _mm512_set1_epi8(kMask << 4 | 15))};
  return r;
#else
  return OrShifted<4>(ShiftHalves<kLow, kLow>(a, 15), ShiftHalves<k0, k1>(b, kMask));
#endif
}

HF_INLINE Codes64 XorAll(const Codes64& a, uint8_t bits) {
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) r.v[i] = hn::Xor(a.v[i], hn::Set(kU8, bits));
  return r;
}

// table[code] for codes < 16.
HF_INLINE Codes64 Lookup16(const int8_t* table, const Codes64& a) {
  const VU8 t = hn::LoadDup128(kU8, reinterpret_cast<const uint8_t*>(table));
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) r.v[i] = hn::TableLookupBytes(t, a.v[i]);
  return r;
}

// Masks of the bytes whose bit is set in `bits` (bit j belongs to byte j).
struct Mask64 {
  hn::Mask<TagU8> m[kC];
};

HF_INLINE Mask64 BitsToMask(uint64_t bits) {
  Mask64 r;
#if HWY_MAX_BYTES == 64
  r.m[0] = hn::Mask<TagU8>{static_cast<__mmask64>(bits)};
#else
  alignas(32) static constexpr uint8_t kByteOf[64] = {
      0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2,
      2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5,
      5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7};
  const VU8 all = hn::BitCast(kU8, hn::Set(hn::ScalableTag<uint64_t>(), bits));
  const VU8 bit = hn::BitCast(kU8, hn::Set(hn::ScalableTag<uint64_t>(), 0x8040201008040201u));
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    const VU8 bytes = hn::TableLookupBytes(all, hn::Load(kU8, kByteOf + i * kBytes));
    r.m[i] = hn::TestBit(bytes, bit);
  }
#endif
  return r;
}

// a with `bits` set in the masked bytes.
HF_INLINE Codes64 OrWhere(const Mask64& mask, const Codes64& a, uint8_t bits) {
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    r.v[i] = hn::Or(a.v[i], hn::IfThenElseZero(mask.m[i], hn::Set(kU8, bits)));
  }
  return r;
}

// middle - a in the masked bytes, middle + a in the others.
HF_INLINE Codes64 SignedAround(uint8_t middle, const Mask64& negative, const Codes64& a) {
  const VU8 m = hn::Set(kU8, middle);
  Codes64 r;
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    r.v[i] = hn::IfThenElse(negative.m[i], hn::Sub(m, a.v[i]), hn::Add(m, a.v[i]));
  }
  return r;
}

// Eight octets. From registers: a vector load right behind narrower stores would wait for them.
HF_INLINE Codes64 FromOctets(const uint64_t* g) {
  Codes64 r;
#if HWY_ARCH_X86
  __m128i pairs[4];
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm_set_epi64x(static_cast<int64_t>(g[2 * i + 1]), static_cast<int64_t>(g[2 * i]));
  }
  const __m256i low = _mm256_set_m128i(pairs[1], pairs[0]);
  const __m256i high = _mm256_set_m128i(pairs[3], pairs[2]);
#if HWY_MAX_BYTES == 64
  r.v[0] = VU8{_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
#else
  r.v[0] = VU8{low};
  r.v[1] = VU8{high};
#endif
#else
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    r.v[i] = VU8{vcombine_u8(vcreate_u8(g[2 * i]), vcreate_u8(g[2 * i + 1]))};
  }
#endif
  return r;
}

// 64 codes of 2 bits stored in sequence, four to a byte, in 16 bytes.
HF_INLINE Codes64 UnpackPairsOfBits(const uint8_t* p) {
  Codes64 r;
  const hn::Rebind<uint8_t, TagU32> d8;
  HF_UNROLL for (int i = 0; i < kC; ++i) {
    // Byte k of v << 6k is v >> 2k.
    auto v = hn::PromoteTo(kU32, hn::LoadU(d8, p + i * kN));
    v = hn::Or(v, hn::ShiftLeft<6>(v));
    v = hn::Or(v, hn::ShiftLeft<12>(v));
    r.v[i] = hn::And(hn::BitCast(kU8, v), hn::Set(kU8, 3));
  }
  return r;
}

// 16 numbers of 32 bits, one for each weight row of a tile.
struct U32x16 {
  hn::Vec<TagU32> v[kV];

  HF_INLINE void Store(void* to) const {
    HF_UNROLL for (int i = 0; i < kV; ++i) {
      hn::StoreU(v[i], kU32, static_cast<uint32_t*>(to) + i * kN);
    }
  }
};

HF_INLINE U32x16 And(const U32x16& a, uint32_t mask) {
  U32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::And(a.v[i], hn::Set(kU32, mask));
  return r;
}

HF_INLINE U32x16 Or(const U32x16& a, const U32x16& b) {
  U32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Or(a.v[i], b.v[i]);
  return r;
}

HF_INLINE U32x16 Xor(const U32x16& a, uint32_t bits) {
  U32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) r.v[i] = hn::Xor(a.v[i], hn::Set(kU32, bits));
  return r;
}

// Right for k > 0, left for k < 0.
template <int k>
HF_INLINE U32x16 Shift(const U32x16& a) {
  U32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) {
    if constexpr (k < 0) {
      r.v[i] = hn::ShiftLeft<-k>(a.v[i]);
    } else {
      r.v[i] = hn::ShiftRight<k>(a.v[i]);
    }
  }
  return r;
}

// 16 bytes from every fourth of the rows, one to each 128-bit lane of a native vector.
HF_INLINE hn::Vec<TagU32> LoadLanes(const uint8_t* const* row, int64_t offset) {
#if HWY_ARCH_X86
  const auto lane = [&](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[4 * i] + offset));
  };
#if HWY_MAX_BYTES == 64
  __m512i v = _mm512_castsi128_si512(lane(0));
  v = _mm512_inserti32x4(v, lane(1), 1);
  v = _mm512_inserti32x4(v, lane(2), 2);
  return hn::Vec<TagU32>{_mm512_inserti32x4(v, lane(3), 3)};
#else
  return hn::Vec<TagU32>{_mm256_inserti128_si256(_mm256_castsi128_si256(lane(0)), lane(1), 1)};
#endif
#else
  return hn::BitCast(kU32, hn::LoadU(kU8, row[0] + offset));
#endif
}

// Four neighbouring dwords of 16 rows, from `offset` bytes on: dword j of all rows is out[j].
HF_INLINE void LoadColumns4(const uint8_t* const* row, int64_t offset, U32x16* out) {
  const hn::Repartition<uint64_t, TagU32> d64;
  HF_UNROLL for (int i = 0; i < kV; ++i) {
    const auto v0 = LoadLanes(row + i * kN, offset), v1 = LoadLanes(row + i * kN + 1, offset);
    const auto v2 = LoadLanes(row + i * kN + 2, offset), v3 = LoadLanes(row + i * kN + 3, offset);
    const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(kU32, v0, v1));
    const auto hi01 = hn::BitCast(d64, hn::InterleaveUpper(kU32, v0, v1));
    const auto lo23 = hn::BitCast(d64, hn::InterleaveLower(kU32, v2, v3));
    const auto hi23 = hn::BitCast(d64, hn::InterleaveUpper(kU32, v2, v3));
    out[0].v[i] = hn::BitCast(kU32, hn::InterleaveLower(d64, lo01, lo23));
    out[1].v[i] = hn::BitCast(kU32, hn::InterleaveUpper(d64, lo01, lo23));
    out[2].v[i] = hn::BitCast(kU32, hn::InterleaveLower(d64, hi01, hi23));
    out[3].v[i] = hn::BitCast(kU32, hn::InterleaveUpper(d64, hi01, hi23));
  }
}

// Transposes 16 rows of n_dwords (a multiple of 4) 32-bit values, row_stride dwords apart, to
// dst[n_dwords][16].
HF_INLINE void TransposeDwords(const uint32_t* src, int row_stride, int n_dwords, uint32_t* dst) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  for (int r = 0; r < 16; r += 4) {
    const uint32_t* row = src + r * row_stride;
    for (int c = 0; c < n_dwords; c += 4) {
      const auto v0 = hn::LoadU(d, row + c);
      const auto v1 = hn::LoadU(d, row + row_stride + c);
      const auto v2 = hn::LoadU(d, row + 2 * row_stride + c);
      const auto v3 = hn::LoadU(d, row + 3 * row_stride + c);
      const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(d, v0, v1));
      const auto hi01 = hn::BitCast(d64, hn::InterleaveUpper(d, v0, v1));
      const auto lo23 = hn::BitCast(d64, hn::InterleaveLower(d, v2, v3));
      const auto hi23 = hn::BitCast(d64, hn::InterleaveUpper(d, v2, v3));
      uint32_t* out = dst + c * 16 + r;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, lo01, lo23)), d, out);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, lo01, lo23)), d, out + 16);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, hi01, hi23)), d, out + 32);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, hi01, hi23)), d, out + 48);
    }
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_CODES_INL_H_
