// Unpacking of 16 weight rows to a tile whose lanes are the rows, [column / 4][row][column % 4].
//
// Most types are unpacked after the transposition: four bytes of every row come to lie in one
// vector as they are stored, so fewer bytes are moved, and the bits are taken apart for 16 rows at
// once. The grid types, whose codes are looked up one by one, are unpacked row by row before it.
#ifndef HOLDFAST_OPS_CPU_SIMD_TILE_UNPACK_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_TILE_UNPACK_INL_H_

#include "ops/cpu/simd/matmul_rows-inl.h"

namespace holdfast::HF_KERNEL_SET {
namespace {

// Columns of a tile; 2560 is the model's width, so most of its matrices are unpacked once per call.
constexpr int kTileCols = 2560;

using TileCodes = uint8_t[16][4];
using TileInts = int32_t[16];
using TilePairs = int16_t[16][2];

struct Tile {
  alignas(64) TileCodes codes[kTileCols / 4];
  alignas(64) TileInts scales[kTileCols / 16];  // types of group 256: per kSub columns
  alignas(64) TilePairs pairs[kTileCols / 32];  // minima or offsets, per 16 columns
  alignas(64) float d[kTileCols / 32][16];      // per group
  alignas(64) float m[kTileCols / 32][16];
};

// The part of a weight matrix that a tile holds: up to 16 rows (fewer: the last one repeats).
struct TileSource {
  int64_t column = 0;  // first one
  int n_cols = 0;
  const uint8_t* row[16] = {};
};

struct UnpackScratch {
  alignas(64) uint8_t rows[16][64];
  alignas(64) int16_t scales[16][16], pairs[16][16];
};

// Halves at `offset` of every row, as f32 times a factor.
HF_INLINE void LoadHalves16(const uint8_t* const* row, int64_t offset, float factor, float* out) {
  alignas(32) uint16_t halves[16];
  for (int r = 0; r < 16; ++r) memcpy(&halves[r], row[r] + offset, 2);
  HF_UNROLL for (int i = 0; i < kV; ++i) {
    const VF32 v = LoadHalves(reinterpret_cast<const uint8_t*>(halves + i * kN));
    hn::StoreU(hn::Mul(v, hn::Set(kF32, factor)), kF32, out + i * kN);
  }
}

HF_INLINE U32x16 LowNibbles(const U32x16& v) { return And(v, 0x0f0f0f0f); }
HF_INLINE U32x16 HighNibbles(const U32x16& v) { return And(Shift<4>(v), 0x0f0f0f0f); }

// table[code] for codes < 16.
HF_INLINE U32x16 LookupCodes(const int8_t* table, const U32x16& codes) {
  const VU8 t = hn::LoadDup128(kU8, reinterpret_cast<const uint8_t*>(table));
  U32x16 r;
  HF_UNROLL for (int i = 0; i < kV; ++i) {
    r.v[i] = hn::BitCast(kU32, hn::TableLookupBytes(t, hn::BitCast(kU8, codes.v[i])));
  }
  return r;
}

// The same as tiles hold wide codes.
HF_INLINE U32x16 LookupWide(const int8_t* table, const U32x16& codes) {
  const U32x16 r = LookupCodes(table, codes);
  return kWideOffset != 0 ? Xor(r, 0x80808080) : r;
}

// A superblock of 16 rows, row by row.
template <class T>
struct SuperBlock {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch* scratch,
                              TileCodes* codes) {
    Chunk<0>(block, scratch, codes);
    Chunk<1>(block, scratch, codes + 16);
    Chunk<2>(block, scratch, codes + 32);
    Chunk<3>(block, scratch, codes + 48);
  }

  // Scales to one int32 per row for every kSub columns; minima or offsets to pairs.
  static HF_INLINE void Scales(const uint8_t* const* block, UnpackScratch* scratch,
                               TileInts* scales, TilePairs* pairs) {
    constexpr int kZ = T::kWide ? kWideOffset : T::kZ;
    for (int r = 0; r < 16; ++r) {
      S16 s, mins;
      T::Scales(block[r], &s, &mins);
      StoreS16(s, scratch->scales[r]);
      if (T::kMin) StoreS16(mins, scratch->pairs[r]);
      if (kZ != 0) StoreS16(MulS16(s, -kZ), scratch->pairs[r]);
    }
    alignas(64) int32_t columns[8][16];
    TransposeDwords(reinterpret_cast<const uint32_t*>(scratch->scales), 8, 8,
                    reinterpret_cast<uint32_t*>(columns));
    for (int g = 0; g < 8; ++g) {
      HF_UNROLL for (int i = 0; i < kV; ++i) {
        const VI32 two = hn::LoadU(kI32, columns[g] + i * kN);
        const VI32 first = hn::ShiftRight<16>(hn::ShiftLeft<16>(two));
        if (T::kSub == 32) {
          hn::StoreU(first, kI32, scales[g] + i * kN);
        } else {
          hn::StoreU(first, kI32, scales[2 * g] + i * kN);
          hn::StoreU(hn::ShiftRight<16>(two), kI32, scales[2 * g + 1] + i * kN);
        }
      }
    }
    if (T::kMin || kZ != 0) {
      TransposeDwords(reinterpret_cast<const uint32_t*>(scratch->pairs), 8, 8,
                      reinterpret_cast<uint32_t*>(pairs));
    }
  }

 private:
  template <int c>
  static HF_INLINE void Chunk(const uint8_t* const* block, UnpackScratch* scratch,
                              TileCodes* codes) {
    for (int r = 0; r < 16; ++r) {
      Codes64 v = T::template Codes<c>(block[r]);
      if (T::kWide && kWideOffset != 0) v = XorAll(v, 0x80);
      Store64(v, scratch->rows[r]);
    }
    TransposeDwords(reinterpret_cast<const uint32_t*>(scratch->rows), 16, 16,
                    reinterpret_cast<uint32_t*>(codes));
  }
};

// What is unpacked after the transposition; the rest as above.
template <class T>
struct SuperBlockCodes : SuperBlock<T> {};

// The six-bit scales and minima of Q4_K and Q5_K, from 12 bytes after d and dmin.
template <int t>
HF_INLINE void KScales(const U32x16* head, TileInts* scales, TilePairs* pairs) {
  const U32x16 &a = head[1], &b = head[2], &c = head[3];
  And(Shift<8 * t>(a), 63).Store(scales[t]);
  Or(And(Shift<8 * t>(c), 15), And(Shift<8 * t + 2>(a), 0x30)).Store(scales[4 + t]);
  const U32x16 low = And(Shift<8 * t>(b), 63);
  const U32x16 high = Or(And(Shift<8 * t + 4>(c), 15), And(Shift<8 * t + 2>(b), 0x30));
  Or(low, Shift<-16>(low)).Store(pairs[t]);
  Or(high, Shift<-16>(high)).Store(pairs[4 + t]);
}

struct KSuperBlock {
  static HF_INLINE void Scales(const uint8_t* const* block, UnpackScratch*, TileInts* scales,
                               TilePairs* pairs) {
    U32x16 head[4];
    LoadColumns4(block, 0, head);
    KScales<0>(head, scales, pairs);
    KScales<1>(head, scales, pairs);
    KScales<2>(head, scales, pairs);
    KScales<3>(head, scales, pairs);
  }
};

template <>
struct SuperBlockCodes<TypeQ4_K> : KSuperBlock {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    for (int c = 0; c < 4; ++c) {
      for (int k = 0; k < 8; k += 4) {
        U32x16 q[4];
        LoadColumns4(block, 16 + 32 * c + 4 * k, q);
        HF_UNROLL for (int i = 0; i < 4; ++i) {
          LowNibbles(q[i]).Store(codes[16 * c + k + i]);
          HighNibbles(q[i]).Store(codes[16 * c + 8 + k + i]);
        }
      }
    }
  }
};

template <>
struct SuperBlockCodes<TypeQ5_K> : KSuperBlock {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    for (int k = 0; k < 8; k += 4) {
      U32x16 fifth[4];
      LoadColumns4(block, 16 + 4 * k, fifth);
      Chunk<0>(block, fifth, k, codes);
      Chunk<1>(block, fifth, k, codes);
      Chunk<2>(block, fifth, k, codes);
      Chunk<3>(block, fifth, k, codes);
    }
  }

 private:
  template <int c>
  static HF_INLINE void Chunk(const uint8_t* const* block, const U32x16* fifth, int k,
                              TileCodes* codes) {
    constexpr uint32_t kBit = 0x10101010;
    U32x16 q[4];
    LoadColumns4(block, 48 + 32 * c + 4 * k, q);
    HF_UNROLL for (int i = 0; i < 4; ++i) {
      Or(LowNibbles(q[i]), And(Shift<2 * c - 4>(fifth[i]), kBit)).Store(codes[16 * c + k + i]);
      Or(HighNibbles(q[i]), And(Shift<2 * c - 3>(fifth[i]), kBit)).Store(codes[16 * c + 8 + k + i]);
    }
  }
};

template <>
struct SuperBlockCodes<TypeQ6_K> {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    constexpr uint32_t kTwo = 0x30303030;
    for (int h = 0; h < 2; ++h) {
      for (int k = 0; k < 8; k += 4) {
        U32x16 a[4], b[4], q[4];
        LoadColumns4(block, 64 * h + 4 * k, a);
        LoadColumns4(block, 64 * h + 32 + 4 * k, b);
        LoadColumns4(block, 128 + 32 * h + 4 * k, q);
        HF_UNROLL for (int i = 0; i < 4; ++i) {
          TileCodes* out = codes + 32 * h + k + i;
          Or(LowNibbles(a[i]), And(Shift<-4>(q[i]), kTwo)).Store(out[0]);
          Or(LowNibbles(b[i]), And(Shift<-2>(q[i]), kTwo)).Store(out[8]);
          Or(HighNibbles(a[i]), And(q[i], kTwo)).Store(out[16]);
          Or(HighNibbles(b[i]), And(Shift<2>(q[i]), kTwo)).Store(out[24]);
        }
      }
    }
  }

  static HF_INLINE void Scales(const uint8_t* const* block, UnpackScratch*, TileInts* scales,
                               TilePairs* pairs) {
    U32x16 bytes[4];
    LoadColumns4(block, 192, bytes);
    HF_UNROLL for (int q = 0; q < 4; ++q) {
      HF_UNROLL for (int i = 0; i < kV; ++i) {
        const VI32 four = hn::BitCast(kI32, bytes[q].v[i]);
        const VI32 s0 = hn::ShiftRight<24>(hn::ShiftLeft<24>(four));
        const VI32 s1 = hn::ShiftRight<24>(hn::ShiftLeft<16>(four));
        const VI32 s2 = hn::ShiftRight<24>(hn::ShiftLeft<8>(four));
        const VI32 s3 = hn::ShiftRight<24>(four);
        hn::StoreU(s0, kI32, scales[4 * q] + i * kN);
        hn::StoreU(s1, kI32, scales[4 * q + 1] + i * kN);
        hn::StoreU(s2, kI32, scales[4 * q + 2] + i * kN);
        hn::StoreU(s3, kI32, scales[4 * q + 3] + i * kN);
        StoreOffsets(s0, s1, pairs[2 * q] + i * kN);
        StoreOffsets(s2, s3, pairs[2 * q + 1] + i * kN);
      }
    }
  }

 private:
  // -32 times two scales, as the pairs of int16 that the sums of 16 codes are multiplied by.
  static HF_INLINE void StoreOffsets(VI32 first, VI32 second, int16_t (*pairs)[2]) {
    const VI32 zero = hn::Zero(kI32);
    const VI32 low = hn::And(hn::Sub(zero, hn::ShiftLeft<5>(first)), hn::Set(kI32, 0xffff));
    const VI32 high = hn::ShiftLeft<16>(hn::Sub(zero, hn::ShiftLeft<5>(second)));
    const auto both = hn::BitCast(hn::Repartition<int16_t, TagI32>(), hn::Or(low, high));
    hn::StoreU(both, hn::Repartition<int16_t, TagI32>(), &pairs[0][0]);
  }
};

template <>
struct SuperBlockCodes<TypeQ2_K> : SuperBlock<TypeQ2_K> {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    constexpr uint32_t kTwo = 0x03030303;
    for (int h = 0; h < 2; ++h) {
      for (int k = 0; k < 8; k += 4) {
        U32x16 q[4];
        LoadColumns4(block, 16 + 32 * h + 4 * k, q);
        HF_UNROLL for (int i = 0; i < 4; ++i) {
          TileCodes* out = codes + 32 * h + k + i;
          And(q[i], kTwo).Store(out[0]);
          And(Shift<2>(q[i]), kTwo).Store(out[8]);
          And(Shift<4>(q[i]), kTwo).Store(out[16]);
          And(Shift<6>(q[i]), kTwo).Store(out[24]);
        }
      }
    }
  }
};

template <>
struct SuperBlockCodes<TypeIQ4_XS> : SuperBlock<TypeIQ4_XS> {
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    for (int g = 0; g < 8; ++g) {
      U32x16 q[4];
      LoadColumns4(block, 8 + 16 * g, q);
      HF_UNROLL for (int i = 0; i < 4; ++i) {
        LookupWide(kIq4Values, LowNibbles(q[i])).Store(codes[8 * g + i]);
        LookupWide(kIq4Values, HighNibbles(q[i])).Store(codes[8 * g + 4 + i]);
      }
    }
  }
};

template <class Source, const RepackedTable& kTable>
struct SuperBlockCodes<Repacked<Source, kTable>> : SuperBlock<Repacked<Source, kTable>> {
  using T = Repacked<Source, kTable>;
  static HF_INLINE void Codes(const uint8_t* const* block, UnpackScratch*, TileCodes* codes) {
    for (int c = 0; c < 4; ++c) {
      for (int k = 0; k < 8; k += 4) {
        U32x16 q[4];
        LoadColumns4(block, T::kCodes + 32 * c + 4 * k, q);
        HF_UNROLL for (int i = 0; i < 4; ++i) {
          LookupCodes(T::kValues, LowNibbles(q[i])).Store(codes[16 * c + k + i]);
          LookupCodes(T::kValues, HighNibbles(q[i])).Store(codes[16 * c + 8 + k + i]);
        }
      }
    }
  }
};

template <class T>
HF_INLINE void UnpackSuperTile(const TileSource& source, UnpackScratch* scratch, Tile& tile) {
  const uint8_t* block[16];
  for (int r = 0; r < 16; ++r) block[r] = source.row[r] + source.column / 256 * T::kBlockBytes;
  for (int i = 0; i < source.n_cols / 256; ++i) {
    SuperBlockCodes<T>::Codes(block, scratch, tile.codes + 64 * i);
    SuperBlockCodes<T>::Scales(block, scratch, tile.scales + i * (256 / T::kSub),
                               tile.pairs + 8 * i);
    LoadHalves16(block, T::kD, T::kDFactor, tile.d[i]);
    if (T::kMin) LoadHalves16(block, T::kM, -1.0f, tile.m[i]);
    for (int r = 0; r < 16; ++r) block[r] += T::kBlockBytes;
  }
}

// A group of 32 columns whose codes lie behind each other, or in the low and the high nibbles of 16
// bytes: false for the types that have them otherwise.
template <class T>
HF_INLINE bool GroupCodes(const uint8_t* const*, int64_t, TileCodes*) {
  return false;
}

template <>
HF_INLINE bool GroupCodes<TypeQ8_0>(const uint8_t* const* row, int64_t g, TileCodes* codes) {
  for (int k = 0; k < 8; k += 4) {
    U32x16 q[4];
    LoadColumns4(row, 34 * g + 2 + 4 * k, q);
    HF_UNROLL for (int i = 0; i < 4; ++i) {
      (kWideOffset != 0 ? Xor(q[i], 0x80808080) : q[i]).Store(codes[k + i]);
    }
  }
  return true;
}

HF_INLINE bool NibbleGroup(const uint8_t* const* row, int64_t offset, TileCodes* codes) {
  U32x16 q[4];
  LoadColumns4(row, offset, q);
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    LowNibbles(q[i]).Store(codes[i]);
    HighNibbles(q[i]).Store(codes[4 + i]);
  }
  return true;
}

template <>
HF_INLINE bool GroupCodes<TypeQ4_0>(const uint8_t* const* row, int64_t g, TileCodes* codes) {
  return NibbleGroup(row, 18 * g + 2, codes);
}

template <>
HF_INLINE bool GroupCodes<TypeQ4_1>(const uint8_t* const* row, int64_t g, TileCodes* codes) {
  return NibbleGroup(row, 20 * g + 4, codes);
}

template <>
HF_INLINE bool GroupCodes<TypeIQ4_NL>(const uint8_t* const* row, int64_t g, TileCodes* codes) {
  U32x16 q[4];
  LoadColumns4(row, 18 * g + 2, q);
  HF_UNROLL for (int i = 0; i < 4; ++i) {
    LookupWide(kIq4Values, LowNibbles(q[i])).Store(codes[i]);
    LookupWide(kIq4Values, HighNibbles(q[i])).Store(codes[4 + i]);
  }
  return true;
}

// The codes of two groups row by row; g1 is g0 where there is no second one.
template <class T>
HF_INLINE void TwoGroupsByRow(const TileSource& source, int64_t g0, int64_t g1,
                              UnpackScratch* scratch, TileCodes* codes) {
  for (int r = 0; r < 16; ++r) {
    Codes64 v = T::Codes(source.row[r], g0, g1);
    if (T::kWide && kWideOffset != 0) v = XorAll(v, 0x80);
    Store64(v, scratch->rows[r]);
  }
  TransposeDwords(reinterpret_cast<const uint32_t*>(scratch->rows), 16, g1 == g0 ? 8 : 16,
                  reinterpret_cast<uint32_t*>(codes));
}

template <class T>
HF_INLINE void UnpackGroupTile(const TileSource& source, UnpackScratch* scratch, Tile& tile) {
  const int n_groups = source.n_cols / 32;
  const int64_t first = source.column / 32;
  for (int g = 0; g < n_groups; ++g) {
    const uint8_t* row = source.row[0];
    LoadHalves16(source.row, T::D(row, first + g) - row, 1.0f, tile.d[g]);
    if constexpr (T::kMin) {
      LoadHalves16(source.row, T::M(row, first + g) - row, 1.0f, tile.m[g]);
    }
    if (GroupCodes<T>(source.row, first + g, tile.codes + 8 * g) || g % 2 == 1) continue;
    TwoGroupsByRow<T>(source, first + g, first + Min(g + 1, n_groups - 1), scratch,
                      tile.codes + 8 * g);
  }
}

template <class T>
void UnpackTile(const TileSource& source, UnpackScratch* scratch, Tile& tile) {
  if constexpr (T::kGroup == 256) {
    UnpackSuperTile<T>(source, scratch, tile);
  } else {
    UnpackGroupTile<T>(source, scratch, tile);
  }
}

}  // namespace
}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_TILE_UNPACK_INL_H_
