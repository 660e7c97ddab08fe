// How each quantised type unpacks into the integers of kernels.h.
//
// Every type says: kGroup (activation group), kBlockBytes, kMin (it has a minimum term), kWide (its
// codes are signed bytes; else they are unsigned, at most 127, and the weight is code - kZ).
// Byte offsets are those of weights/dequantize.cc.
//
// Types of kGroup 256 give Codes<c>(block), columns 64 c .. 64 c + 63, and Scales(block, scales,
// mins), one per 16 columns; kSub is the number of columns that really share a scale.
// Types of kGroup 32 give Codes(row, g0, g1): group g0, then group g1 (g0 + 1, or g0 again).
#ifndef HOLDFAST_OPS_CPU_SIMD_TYPES_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_TYPES_INL_H_

#include "ops/cpu/simd/int_dot-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

HF_INLINE uint32_t LoadU32(const uint8_t* p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
HF_INLINE uint64_t LoadU64(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

// The eight nibbles of 32 bits, from the low end, one byte each.
HF_INLINE uint64_t SpreadNibbles(uint64_t x) {
  x = (x | x << 16) & 0x0000ffff0000ffff;
  x = (x | x << 8) & 0x00ff00ff00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
}

// The eight pairs of bits of 16 bits, one byte each.
HF_INLINE uint64_t SpreadPairsOfBits(uint64_t x) {
  x = (x | x << 24) & 0x000000ff000000ff;
  x = (x | x << 12) & 0x000f000f000f000f;
  return (x | x << 6) & 0x0303030303030303;
}

alignas(16) constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

struct TypeQ8_0 {
  static constexpr int kGroup = 32, kBlockBytes = 34, kZ = 0;
  static constexpr bool kMin = false, kWide = true;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    return Load32x2(row + 34 * g0 + 2, row + 34 * g1 + 2);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 34 * g; }
};

// The nibbles of two blocks in column order.
HF_INLINE Codes64 Nibbles(const uint8_t* q0, const uint8_t* q1) {
  return ShiftQuarters<0, 4, 0, 4>(Dup16x2(q0, q1), 15);
}

struct TypeQ4_0 {
  static constexpr int kGroup = 32, kBlockBytes = 18, kZ = 8;
  static constexpr bool kMin = false, kWide = false;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    return Nibbles(row + 18 * g0 + 2, row + 18 * g1 + 2);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 18 * g; }
};

struct TypeQ4_1 {
  static constexpr int kGroup = 32, kBlockBytes = 20, kZ = 0;
  static constexpr bool kMin = true, kWide = false;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    return Nibbles(row + 20 * g0 + 4, row + 20 * g1 + 4);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 20 * g; }
  static HF_INLINE const uint8_t* M(const uint8_t* row, int64_t g) { return row + 20 * g + 2; }
};

// Sets bit 4 of every code from the 32 bits at h0 and at h1.
HF_INLINE Codes64 FifthBits(const Codes64& codes, const uint8_t* h0, const uint8_t* h1) {
  return OrWhere(BitsToMask(LoadU32(h0) | static_cast<uint64_t>(LoadU32(h1)) << 32), codes, 16);
}

struct TypeQ5_0 {
  static constexpr int kGroup = 32, kBlockBytes = 22, kZ = 16;
  static constexpr bool kMin = false, kWide = false;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    const uint8_t *b0 = row + 22 * g0, *b1 = row + 22 * g1;
    return FifthBits(Nibbles(b0 + 6, b1 + 6), b0 + 2, b1 + 2);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 22 * g; }
};

struct TypeQ5_1 {
  static constexpr int kGroup = 32, kBlockBytes = 24, kZ = 0;
  static constexpr bool kMin = true, kWide = false;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    const uint8_t *b0 = row + 24 * g0, *b1 = row + 24 * g1;
    return FifthBits(Nibbles(b0 + 8, b1 + 8), b0 + 4, b1 + 4);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 24 * g; }
  static HF_INLINE const uint8_t* M(const uint8_t* row, int64_t g) { return row + 24 * g + 2; }
};

struct TypeIQ4_NL {
  static constexpr int kGroup = 32, kBlockBytes = 18, kZ = 0;
  static constexpr bool kMin = false, kWide = true;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t g1) {
    return Lookup16(kIq4Values, Nibbles(row + 18 * g0 + 2, row + 18 * g1 + 2));
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 18 * g; }
};

// A block of 64 is two groups; rows are whole blocks, so g0 is even and g1 is g0 + 1.
struct TypeQ2_0 {
  static constexpr int kGroup = 32, kBlockBytes = 18, kZ = 1;
  static constexpr bool kMin = false, kWide = false;
  static HF_INLINE Codes64 Codes(const uint8_t* row, int64_t g0, int64_t) {
    return UnpackPairsOfBits(row + 18 * (g0 / 2) + 2);
  }
  static HF_INLINE const uint8_t* D(const uint8_t* row, int64_t g) { return row + 18 * (g / 2); }
};

// The eight 6-bit scales and minima of Q4_K and Q5_K from 12 bytes.
HF_INLINE void UnpackKScales(const uint8_t* s, S16* scales, S16* mins) {
  constexpr uint32_t k6 = 0x3f3f3f3f, k4 = 0x0f0f0f0f, k2 = 0x03030303;
  const uint32_t a = LoadU32(s), b = LoadU32(s + 4), c = LoadU32(s + 8);
  const uint32_t scale_high = (c & k4) | ((a >> 6) & k2) << 4;
  const uint32_t min_high = ((c >> 4) & k4) | ((b >> 6) & k2) << 4;
  *scales = S16FromBytesTwice((a & k6) | static_cast<uint64_t>(scale_high) << 32);
  *mins = S16FromBytesTwice((b & k6) | static_cast<uint64_t>(min_high) << 32);
}

struct TypeQ4_K {
  static constexpr int kGroup = 256, kBlockBytes = 144, kSub = 32, kZ = 0;
  static constexpr bool kMin = true, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    return ShiftHalves<0, 4>(Dup32(b + 16 + 32 * c), 15);
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16* mins) {
    UnpackKScales(b + 4, scales, mins);
  }
  static constexpr int kD = 0, kM = 2;
  static constexpr float kDFactor = 1.0f;
};

struct TypeQ5_K {
  static constexpr int kGroup = 256, kBlockBytes = 176, kSub = 32, kZ = 0;
  static constexpr bool kMin = true, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    return OrShifted<4>(ShiftHalves<0, 4>(Dup32(b + 48 + 32 * c), 15),
                        ShiftHalves<2 * c, 2 * c + 1>(Dup32(b + 16), 1));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16* mins) {
    UnpackKScales(b + 4, scales, mins);
  }
  static constexpr int kD = 0, kM = 2;
  static constexpr float kDFactor = 1.0f;
};

struct TypeQ6_K {
  static constexpr int kGroup = 256, kBlockBytes = 210, kSub = 16, kZ = 32;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    constexpr int h = c / 2, k = 4 * (c % 2);
    return JoinBits<k, k, k + 2, 3>(Load64(b + 64 * h), Dup32(b + 128 + 32 * h));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    *scales = S16FromI8(b + 192);
  }
  static constexpr int kD = 208, kM = 0;
  static constexpr float kDFactor = 1.0f;
};

struct TypeQ2_K {
  static constexpr int kGroup = 256, kBlockBytes = 84, kSub = 16, kZ = 0;
  static constexpr bool kMin = true, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    constexpr int k = 4 * (c % 2);
    return ShiftHalves<k, k + 2>(Dup32(b + 16 + 32 * (c / 2)), 3);
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16* mins) {
    constexpr uint64_t k4 = 0x0f0f0f0f0f0f0f0f;
    const uint64_t low = LoadU64(b), high = LoadU64(b + 8);
    *scales = S16FromBytes(low & k4, high & k4);
    *mins = S16FromBytes((low >> 4) & k4, (high >> 4) & k4);
  }
  static constexpr int kD = 80, kM = 82;
  static constexpr float kDFactor = 1.0f;
};

struct TypeQ3_K {
  static constexpr int kGroup = 256, kBlockBytes = 110, kSub = 16, kZ = 4;
  static constexpr bool kMin = false, kWide = false;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    constexpr int h = c / 2, r = 2 * (c % 2);
    return OrShifted<2>(ShiftHalves<2 * r, 2 * r + 2>(Dup32(b + 32 + 32 * h), 3),
                        ShiftHalves<4 * h + r, 4 * h + r + 1>(Dup32(b), 1));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    constexpr uint64_t k4 = 0x0f0f0f0f0f0f0f0f, k2 = 0x0303030303030303;
    const uint64_t low = LoadU64(b + 96);
    const uint64_t t = LoadU32(b + 104);
    const uint64_t high = t | (t >> 2) << 32;  // groups 0-7; 8-15 are four bits up
    *scales = AddS16(
        S16FromBytes((low & k4) | (high & k2) << 4, ((low >> 4) & k4) | ((high >> 4) & k2) << 4),
        -32);
  }
  static constexpr int kD = 108, kM = 0;
  static constexpr float kDFactor = 1.0f;
};

struct TypeIQ4_XS {
  static constexpr int kGroup = 256, kBlockBytes = 136, kSub = 32, kZ = 0;
  static constexpr bool kMin = false, kWide = true;
  template <int c>
  static HF_INLINE Codes64 Codes(const uint8_t* b) {
    return Lookup16(kIq4Values, Nibbles(b + 8 + 32 * c, b + 24 + 32 * c));
  }
  static HF_INLINE void Scales(const uint8_t* b, S16* scales, S16*) {
    const uint64_t high = SpreadPairsOfBits(LoadU16(b + 2));
    *scales = AddS16(S16FromBytesTwice(SpreadNibbles(LoadU32(b + 4)) | high << 4), -32);
  }
  static constexpr int kD = 0, kM = 0;
  static constexpr float kDFactor = 1.0f;
};

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_TYPES_INL_H_
