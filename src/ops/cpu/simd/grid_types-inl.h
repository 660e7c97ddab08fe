// The grid (lattice) types for types-inl.h: magnitudes come from code books, eight columns a
// look-up.
#ifndef HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_

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

HF_INLINE Codes64 SignedGrid(const uint64_t* magnitudes, uint64_t signs) {
  return SignedAround(kGridZ, BitsToMask(signs), Load64(magnitudes));
}

// Four sign bytes from 4 x 7 bits: the eighth bit makes the number of minus signs even.
HF_INLINE uint64_t EvenSigns4(uint32_t bits) {
  uint64_t signs = 0;
  HF_UNROLL for (int l = 0; l < 4; ++l) {
    const uint32_t v = (bits >> (7 * l)) & 127;
    signs |= static_cast<uint64_t>(v | static_cast<uint32_t>(__builtin_parity(v)) << 7) << (8 * l);
  }
  return signs;
}

HF_INLINE uint64_t TwoQuads(uint32_t first, uint32_t second) {
  return first | static_cast<uint64_t>(second) << 32;
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
    const uint64_t* grid = Plain<uint64_t>(&kIq2xxsGrid);
    const uint8_t* q = b + 2 + 16 * c;
    alignas(64) uint64_t g[8];
    HF_UNROLL for (int l = 0; l < 4; ++l) {
      g[l] = grid[q[l]];
      g[4 + l] = grid[q[8 + l]];
    }
    return SignedGrid(g, EvenSigns4(LoadU32(q + 4)) | EvenSigns4(LoadU32(q + 12)) << 32);
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
  const uint64_t low = OddBytes(s & k4), high = OddBytes((s >> 4) & k4);
  uint8_t bytes[16];
  HF_UNROLL for (int i = 0; i < 8; ++i) {
    bytes[2 * i] = static_cast<uint8_t>(low >> (8 * i));
    bytes[2 * i + 1] = static_cast<uint8_t>(high >> (8 * i));
  }
  return S16FromI8(bytes);
}

struct TypeIQ2_XS {
  static constexpr int kGroup = 256, kBlockBytes = 74, kSub = 16, kZ = kGridZ;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    const uint64_t* grid = Plain<uint64_t>(&kIq2xsGrid);
    const uint8_t* p = b + 2 + 16 * c;
    alignas(64) uint64_t g[8];
    uint64_t signs = 0;
    HF_UNROLL for (int l = 0; l < 8; ++l) {
      const uint32_t q = p[2 * l] | static_cast<uint32_t>(p[2 * l + 1]) << 8;
      const uint32_t v = q >> 9;
      g[l] = grid[q & 511];
      signs |= static_cast<uint64_t>(v | static_cast<uint32_t>(__builtin_parity(v)) << 7)
               << (8 * l);
    }
    return SignedGrid(g, signs);
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
    const uint64_t* grid = Plain<uint64_t>(&kIq2sGrid);
    alignas(64) uint64_t g[8];
    HF_UNROLL for (int l = 0; l < 8; ++l) {
      const uint32_t high = (b[66 + 2 * c + l / 4] >> (2 * (l % 4))) & 3;
      g[l] = grid[b[2 + 8 * c + l] | high << 8];
    }
    return SignedGrid(g, LoadU64(b + 34 + 8 * c));
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
    const uint32_t* grid = Plain<uint32_t>(&kIq3xxsGrid);
    const uint8_t *q = b + 2 + 16 * c, *w = b + 66 + 8 * c;
    alignas(64) uint64_t g[8];
    HF_UNROLL for (int l = 0; l < 8; ++l) g[l] = TwoQuads(grid[q[2 * l]], grid[q[2 * l + 1]]);
    return SignedGrid(g, EvenSigns4(LoadU32(w)) | EvenSigns4(LoadU32(w + 4)) << 32);
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
    const uint32_t* grid = Plain<uint32_t>(&kIq3sGrid);
    const uint8_t* q = b + 2 + 16 * c;
    const uint32_t high = b[66 + 2 * c] | static_cast<uint32_t>(b[67 + 2 * c]) << 8;
    alignas(64) uint64_t g[8];
    HF_UNROLL for (int l = 0; l < 8; ++l) {
      g[l] = TwoQuads(grid[q[2 * l] | ((high >> (2 * l)) & 1) << 8],
                      grid[q[2 * l + 1] | ((high >> (2 * l + 1)) & 1) << 8]);
    }
    return SignedGrid(g, LoadU64(b + 74 + 8 * c));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    const uint32_t s = LoadU32(b + 106);
    uint64_t nibbles = 0;
    HF_UNROLL for (int i = 0; i < 8; ++i) {
      nibbles |= static_cast<uint64_t>((s >> (4 * i)) & 15) << (8 * i);
    }
    *scales = S16FromBytesTwice(OddBytes(nibbles));
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 1.0f;
};

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_GRID_TYPES_INL_H_
