// The grid (lattice) types for types-inl.h: magnitudes come from code books, eight columns a
// look-up.
#ifndef HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_

#include "ops/cpu/grid_blocks.h"
#include "ops/cpu/simd/types-inl.h"
#include "weights/grid_tables.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// The tables as plain arrays: std::array's functions would be compiled with this set's flags.
template <class T, class Table>
HF_INLINE const T* Plain(const Table* table) {
  return reinterpret_cast<const T*>(table);
}

// Magnitudes are at most 62: code = 64 +- magnitude fits the narrow range.
constexpr int kGridZ = 64;

HF_INLINE Codes64 SignedGrid(const Codes64& magnitudes, uint64_t signs) {
  return SignedAround(kGridZ, BitsToMask(signs), magnitudes);
}

HF_INLINE uint64_t TwoQuads(uint32_t first, uint32_t second) {
  return first | static_cast<uint64_t>(second) << 32;
}

// Eight columns from each of eight entries of a code book, by their indices.
#if HWY_MAX_BYTES == 64
using Index8 = __m256i;
HF_INLINE Index8 IndicesOf8(uint64_t bytes) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
}
HF_INLINE Index8 AddHighBits(const Index8& low, uint32_t pairs_of_bits) {
  const __m256i by = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
  const __m256i all = _mm256_set1_epi32(static_cast<int>(pairs_of_bits));
  const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(all, by), _mm256_set1_epi32(3));
  return _mm256_or_si256(low, _mm256_slli_epi32(high, 8));
}
HF_INLINE Index8 LowNineBits8(const uint8_t* words) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
  return _mm256_and_si256(_mm256_cvtepu16_epi32(v), _mm256_set1_epi32(511));
}
HF_INLINE Codes64 LookUp8(const uint64_t* grid, const Index8& index) {
  Codes64 r;
  r.v[0] = VU8{_mm512_i32gather_epi64(index, grid, 8)};
  return r;
}
// Four columns from each of 16 entries: 16 low bytes of indices, and their ninth bits.
HF_INLINE Codes64 LookUp16(const uint32_t* grid, const uint8_t* low, uint32_t ninth_bits) {
  __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low)));
  index = _mm512_mask_or_epi32(index, static_cast<__mmask16>(ninth_bits), index,
                               _mm512_set1_epi32(256));
  Codes64 r;
  r.v[0] = VU8{_mm512_i32gather_epi32(index, grid, 4)};
  return r;
}
#else
struct Index8 {
  uint32_t v[8];
};
HF_INLINE Index8 IndicesOf8(uint64_t bytes) {
  Index8 r;
  HF_UNROLL for (int l = 0; l < 8; ++l) r.v[l] = (bytes >> (8 * l)) & 255;
  return r;
}
HF_INLINE Index8 AddHighBits(const Index8& low, uint32_t pairs_of_bits) {
  Index8 r;
  HF_UNROLL for (int l = 0; l < 8; ++l) r.v[l] = low.v[l] | ((pairs_of_bits >> (2 * l)) & 3) << 8;
  return r;
}
HF_INLINE Index8 LowNineBits8(const uint8_t* words) {
  Index8 r;
  HF_UNROLL for (int l = 0; l < 8; ++l) r.v[l] =
      static_cast<uint32_t>(LoadU16(words + 2 * l)) & 511;
  return r;
}
HF_INLINE Codes64 LookUp8(const uint64_t* grid, const Index8& index) {
  uint64_t g[8];
  HF_UNROLL for (int l = 0; l < 8; ++l) g[l] = grid[index.v[l]];
  return FromOctets(g);
}
HF_INLINE Codes64 LookUp16(const uint32_t* grid, const uint8_t* low, uint32_t ninth_bits) {
  const uint32_t high = ninth_bits << 8;
  uint64_t g[8];
  HF_UNROLL for (int l = 0; l < 8; ++l) {
    g[l] = TwoQuads(grid[low[2 * l] | ((high >> (2 * l)) & 256)],
                    grid[low[2 * l + 1] | ((high >> (2 * l + 1)) & 256)]);
  }
  return FromOctets(g);
}
#endif

// Sets bit 7 of every byte of seven bits so that the number of set bits is even.
HF_INLINE uint64_t EvenParity(uint64_t v) {
  uint64_t t = v ^ ((v >> 4) & 0x0707070707070707);
  t ^= t >> 2;
  t ^= t >> 1;
  return v | (t & 0x0101010101010101) << 7;
}

// Eight sign bytes from the low 28 bits of two words, 7 bits each.
HF_INLINE uint64_t EvenSigns8(uint32_t w0, uint32_t w1) {
  const uint64_t w = w0 | static_cast<uint64_t>(w1) << 32;
  return EvenParity((w & 0x0000007f0000007f) | ((w << 1) & 0x00007f0000007f00) |
                    ((w << 2) & 0x007f0000007f0000) | ((w << 3) & 0x7f0000007f000000));
}

// The low bytes of four 16-bit numbers below 256.
HF_INLINE uint64_t PackBytes(uint64_t v) {
  v = (v | v >> 8) & 0x0000ffff0000ffff;
  return (v | v >> 16) & 0xffffffff;
}

// 2 n + 1 of every byte (n < 16).
HF_INLINE uint64_t OddBytes(uint64_t nibbles) { return 2 * nibbles + 0x0101010101010101; }

// Bits 28..31 of eight words `stride` bytes apart, one byte each.
HF_INLINE uint64_t TopNibbles(const uint8_t* words, int stride) {
  uint64_t r = 0;
  HF_UNROLL for (int i = 0; i < 8; ++i) {
    r |= static_cast<uint64_t>(words[i * stride + 3] >> 4) << (8 * i);
  }
  return r;
}

struct TypeIQ2_XXS {
  static constexpr int kGroup = 256, kBlockBytes = 66, kSub = 32, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const uint8_t* q = b + 2 + 16 * c;
    const uint64_t entries = LoadU32(q) | static_cast<uint64_t>(LoadU32(q + 8)) << 32;
    return SignedGrid(LookUp8(Plain<uint64_t>(&kIq2xxsGrid), IndicesOf8(entries)),
                      EvenSigns8(LoadU32(q + 4), LoadU32(q + 12)));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = S16FromBytesTwice(OddBytes(TopNibbles(b + 6, 8)));
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 0.125f;
};

// Scales of IQ2_XS and IQ2_S: nibbles of 8 bytes in order, one per 16 columns.
HF_INLINE S16 NibbleScales(const uint8_t* p) {
  constexpr uint64_t k4 = 0x0f0f0f0f0f0f0f0f;
  const uint64_t s = LoadU64(p);
  return S16FromAlternating(OddBytes(s & k4), OddBytes((s >> 4) & k4));
}

struct TypeIQ2_XS {
  static constexpr int kGroup = 256, kBlockBytes = 74, kSub = 16, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const uint8_t* p = b + 2 + 16 * c;
    constexpr uint64_t k7 = 0x007f007f007f007f;
    const uint64_t first = PackBytes((LoadU64(p) >> 9) & k7);
    const uint64_t signs = EvenParity(first | PackBytes((LoadU64(p + 8) >> 9) & k7) << 32);
    return SignedGrid(LookUp8(Plain<uint64_t>(&kIq2xsGrid), LowNineBits8(p)), signs);
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = NibbleScales(b + 66);
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 0.125f;
};

struct TypeIQ2_S {
  static constexpr int kGroup = 256, kBlockBytes = 82, kSub = 16, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const auto high = static_cast<uint32_t>(LoadU16(b + 66 + 2 * c));
    const Index8 index = AddHighBits(IndicesOf8(LoadU64(b + 2 + 8 * c)), high);
    return SignedGrid(LookUp8(Plain<uint64_t>(&kIq2sGrid), index), LoadU64(b + 34 + 8 * c));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = NibbleScales(b + 74);
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 0.125f;
};

struct TypeIQ3_XXS {
  static constexpr int kGroup = 256, kBlockBytes = 98, kSub = 32, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const uint8_t* w = b + 66 + 8 * c;
    return SignedGrid(LookUp16(Plain<uint32_t>(&kIq3xxsGrid), b + 2 + 16 * c, 0),
                      EvenSigns8(LoadU32(w), LoadU32(w + 4)));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = S16FromBytesTwice(OddBytes(TopNibbles(b + 66, 4)));
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 0.25f;
};

struct TypeIQ3_S {
  static constexpr int kGroup = 256, kBlockBytes = 110, kSub = 32, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const auto ninth = static_cast<uint32_t>(LoadU16(b + 66 + 2 * c));
    return SignedGrid(LookUp16(Plain<uint32_t>(&kIq3sGrid), b + 2 + 16 * c, ninth),
                      LoadU64(b + 74 + 8 * c));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = S16FromBytesTwice(OddBytes(SpreadNibbles(LoadU32(b + 106))));
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 1.0f;
};

// The signed values of repacked codes (ops/cpu/grid_blocks.h), moved up by the largest magnitude.
struct RepackedTable {
  alignas(16) int8_t codes[16];
  int z;

  constexpr explicit RepackedTable(const std::array<int8_t, 8>& magnitudes) : codes(), z(0) {
    for (const int8_t m : magnitudes) z = m > z ? m : z;
    for (int i = 0; i < 8; ++i) {
      codes[i] = static_cast<int8_t>(z + magnitudes[i]);
      codes[8 + i] = static_cast<int8_t>(z - magnitudes[i]);
    }
  }
};
constexpr RepackedTable kIq2Table(kIq2Magnitudes), kIq3XxsTable(kIq3XxsMagnitudes),
    kIq3STable(kIq3SMagnitudes);

template <class Source, const RepackedTable& kTable>
struct Repacked {
  static constexpr int kGroup = 256, kSub = Source::kSub, kZ = kTable.z;
  static constexpr int kCodes = 2 + 256 / kSub;  // where the codes begin
  static constexpr int kBlockBytes = kCodes + 128;
  static constexpr bool kMin = false, kWide = false;
  static constexpr const int8_t* kValues = kTable.codes;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    return Lookup16(kValues, ShiftHalves<0, 4>(Dup32(b + kCodes + 32 * c), 15));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = kSub == 16 ? S16FromI8(b + 2) : S16FromBytesTwice(LoadU64(b + 2));
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = Source::kDFactor;
};
using RepackedIQ2_XXS = Repacked<TypeIQ2_XXS, kIq2Table>;
using RepackedIQ2 = Repacked<TypeIQ2_XS, kIq2Table>;  // IQ2_XS and IQ2_S
using RepackedIQ3_XXS = Repacked<TypeIQ3_XXS, kIq3XxsTable>;
using RepackedIQ3_S = Repacked<TypeIQ3_S, kIq3STable>;

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_
