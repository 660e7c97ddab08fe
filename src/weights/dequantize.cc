#include "weights/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "weights/grid_tables.h"

// One decoder per type, each for one block: `b` is the block's bytes, `y` its outputs. Offsets are
// bytes from the start of the block; `lo` and `hi` are the nibbles of a byte. All files are
// little-endian, and so are the machines this builds for.

namespace holdfast {
namespace {

static_assert(std::endian::native == std::endian::little);

uint8_t U8(const std::byte* p) { return static_cast<uint8_t>(*p); }
uint16_t U16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
uint32_t U32(const std::byte* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
float Half(const std::byte* p) { return HalfToFloat(U16(p)); }
int Lo(std::byte b) { return static_cast<int>(b) & 15; }
int Hi(std::byte b) { return static_cast<int>(b) >> 4; }

// -value when the lowest bit of `sign` is set: without a branch, which no predictor would guess.
float Negated(float value, uint32_t sign) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (sign << 31));
}

// {0: half d; 2: u8 q[16]}: low nibbles are values 0..15, high ones 16..31.
void DecodeQ4_0(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(Lo(b[2 + j]) - 8) * d;
    y[j + 16] = static_cast<float>(Hi(b[2 + j]) - 8) * d;
  }
}

// {0: half d; 2: half m; 4: u8 q[16]}.
void DecodeQ4_1(const std::byte* b, float* y) {
  const float d = Half(b), m = Half(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(Lo(b[4 + j])) * d + m;
    y[j + 16] = static_cast<float>(Hi(b[4 + j])) * d + m;
  }
}

// {0: half d; 2: u32 high bits; 6: u8 q[16]}: bit j of the high bits belongs to value j.
void DecodeQ5_0(const std::byte* b, float* y) {
  const float d = Half(b);
  const uint32_t high = U32(b + 2);
  for (int j = 0; j < 16; ++j) {
    const int low_code = Lo(b[6 + j]) | static_cast<int>(((high >> j) & 1) << 4);
    const int high_code = Hi(b[6 + j]) | static_cast<int>(((high >> (j + 16)) & 1) << 4);
    y[j] = static_cast<float>(low_code - 16) * d;
    y[j + 16] = static_cast<float>(high_code - 16) * d;
  }
}

// {0: half d; 2: half m; 4: u32 high bits; 8: u8 q[16]}.
void DecodeQ5_1(const std::byte* b, float* y) {
  const float d = Half(b), m = Half(b + 2);
  const uint32_t high = U32(b + 4);
  for (int j = 0; j < 16; ++j) {
    const int low_code = Lo(b[8 + j]) | static_cast<int>(((high >> j) & 1) << 4);
    const int high_code = Hi(b[8 + j]) | static_cast<int>(((high >> (j + 16)) & 1) << 4);
    y[j] = static_cast<float>(low_code) * d + m;
    y[j + 16] = static_cast<float>(high_code) * d + m;
  }
}

// {0: half d; 2: i8 q[32]}.
void DecodeQ8_0(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<int8_t>(b[2 + j])) * d;
}

// {0: half d; 2: u8 q[16]}: 128 sign bits.
void DecodeQ1_0(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 128; ++j) y[j] = Negated(-d, U8(b + 2 + j / 8) >> (j % 8));
}

// {0: half d; 2: u8 q[16]}: 64 codes of 2 bits in sequence, meaning -1, 0, 1, 2.
void DecodeQ2_0(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 64; ++j) {
    y[j] = static_cast<float>(((U8(b + 2 + j / 4) >> (2 * (j % 4))) & 3) - 1) * d;
  }
}

// {0: half d; 2: u8 q[16]}: nibbles as Q4_0, through a table.
void DecodeIQ4_NL(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(kIq4nlValues[Lo(b[2 + j])]);
    y[j + 16] = d * static_cast<float>(kIq4nlValues[Hi(b[2 + j])]);
  }
}

// {0: u8 e; 1: u8 q[16]}: the scale is 2^(e - 128), a denormal for e < 2.
void DecodeMXFP4(const std::byte* b, float* y) {
  const uint32_t e = U8(b);
  const float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(kFp4Values[Lo(b[1 + j])]);
    y[j + 16] = d * static_cast<float>(kFp4Values[Hi(b[1 + j])]);
  }
}

// Half of an unsigned E4M3 number (the code book holds doubled values); 0x7f is not a number and
// counts as zero.
float HalvedE4M3(uint8_t s) {
  if (s == 0 || s == 0x7f) return 0.0f;
  const int exponent = (s >> 3) & 15, mantissa = s & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::bit_cast<float>(static_cast<uint32_t>(exponent - 8 + 127) << 23) *
         (1.0f + static_cast<float>(mantissa) / 8.0f);
}

// {0: u8 scale[4]; 4: u8 q[32]}: four sub-blocks of 16.
void DecodeNVFP4(const std::byte* b, float* y) {
  for (int g = 0; g < 4; ++g) {
    const float d = HalvedE4M3(U8(b + g));
    for (int i = 0; i < 8; ++i) {
      y[16 * g + i] = static_cast<float>(kFp4Values[Lo(b[4 + 8 * g + i])]) * d;
      y[16 * g + 8 + i] = static_cast<float>(kFp4Values[Hi(b[4 + 8 * g + i])]) * d;
    }
  }
}

// {0: u8 scales[16]; 16: u8 q[64]; 80: half d; 82: half dmin}.
void DecodeQ2_K(const std::byte* b, float* y) {
  const float d = Half(b + 80), dmin = Half(b + 82);
  for (int group = 0; group < 16; ++group) {
    const int scale = U8(b + group);
    const float dl = d * static_cast<float>(scale & 15);
    const float ml = dmin * static_cast<float>(scale >> 4);
    const std::byte* q = b + 16 + 32 * (group / 8) + 16 * (group % 2);
    const int shift = 2 * ((group % 8) / 2);
    for (int l = 0; l < 16; ++l) {
      y[16 * group + l] = dl * static_cast<float>((U8(q + l) >> shift) & 3) - ml;
    }
  }
}

// {0: u8 high mask[32]; 32: u8 q[64]; 96: u8 scales[12]; 108: half d}.
void DecodeQ3_K(const std::byte* b, float* y) {
  const float d = Half(b + 108);
  const std::byte* s = b + 96;
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? U8(s + group) & 15 : U8(s + group - 8) >> 4;
    const int high = (U8(s + 8 + group % 4) >> (2 * (group / 4))) & 3;
    const float dl = d * static_cast<float>((low | (high << 4)) - 32);
    const std::byte* q = b + 32 + 32 * (group / 8) + 16 * (group % 2);
    const std::byte* mask = b + 16 * (group % 2);
    const int shift = 2 * ((group % 8) / 2), bit = group / 2;
    for (int l = 0; l < 16; ++l) {
      const int code = ((U8(q + l) >> shift) & 3) - ((U8(mask + l) >> bit) & 1 ? 0 : 4);
      y[16 * group + l] = dl * static_cast<float>(code);
    }
  }
}

// Scale and minimum of 32 values of Q4_K and Q5_K, 6 bits each, from 12 bytes.
struct ScaleMin {
  int scale, min;
};
ScaleMin KScale(const std::byte* s, int g) {
  if (g < 4) return {U8(s + g) & 63, U8(s + g + 4) & 63};
  return {(U8(s + g + 4) & 15) | ((U8(s + g - 4) >> 6) << 4),
          (U8(s + g + 4) >> 4) | ((U8(s + g) >> 6) << 4)};
}

// {0: half d; 2: half dmin; 4: u8 scales[12]; 16: u8 q[128]}.
void DecodeQ4_K(const std::byte* b, float* y) {
  const float d = Half(b), dmin = Half(b + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin sm = KScale(b + 4, g);
    const float dl = d * static_cast<float>(sm.scale), ml = dmin * static_cast<float>(sm.min);
    const std::byte* q = b + 16 + 32 * (g / 2);
    const int shift = 4 * (g % 2);
    for (int l = 0; l < 32; ++l) {
      y[32 * g + l] = dl * static_cast<float>((U8(q + l) >> shift) & 15) - ml;
    }
  }
}

// {0: half d; 2: half dmin; 4: u8 scales[12]; 16: u8 high[32]; 48: u8 q[128]}.
void DecodeQ5_K(const std::byte* b, float* y) {
  const float d = Half(b), dmin = Half(b + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin sm = KScale(b + 4, g);
    const float dl = d * static_cast<float>(sm.scale), ml = dmin * static_cast<float>(sm.min);
    const std::byte* q = b + 48 + 32 * (g / 2);
    const int shift = 4 * (g % 2);
    for (int l = 0; l < 32; ++l) {
      const int code = ((U8(q + l) >> shift) & 15) | (((U8(b + 16 + l) >> g) & 1) << 4);
      y[32 * g + l] = dl * static_cast<float>(code) - ml;
    }
  }
}

// {0: u8 low[128]; 128: u8 high[64]; 192: i8 scales[16]; 208: half d}.
void DecodeQ6_K(const std::byte* b, float* y) {
  const float d = Half(b + 208);
  for (int group = 0; group < 16; ++group) {
    const float dl = d * static_cast<float>(static_cast<int8_t>(b[192 + group]));
    const int half = group / 8, r = (group % 8) / 2, first = 16 * (group % 2);
    const std::byte* low = b + 64 * half + 32 * (r & 1) + first;
    const std::byte* high = b + 128 + 32 * half + first;
    for (int l = 0; l < 16; ++l) {
      const int code =
          ((U8(low + l) >> (4 * (r >> 1))) & 15) | (((U8(high + l) >> (2 * r)) & 3) << 4);
      y[16 * group + l] = dl * static_cast<float>(code - 32);
    }
  }
}

// {0: f32 d; 4: i8 q[256]; 260: i16 sums[16]}.
void DecodeQ8_K(const std::byte* b, float* y) {
  const float d = std::bit_cast<float>(U32(b));
  for (int j = 0; j < 256; ++j) y[j] = d * static_cast<float>(static_cast<int8_t>(b[4 + j]));
}

// Eight outputs: db * magnitude, negated where the sign bit is set.
void SignedOctet(float db, uint64_t grid, uint32_t signs, float* y) {
  for (int n = 0; n < 8; ++n) {
    y[n] = Negated(db * static_cast<float>((grid >> (8 * n)) & 255), signs >> n);
  }
}

uint64_t TwoQuads(uint32_t first, uint32_t second) { return first | (uint64_t{second} << 32); }

// {0: half d; 2: 8 x (u8 index[4], u32 w)}: w holds 4 x 7 sign bits and the 4-bit scale.
void DecodeIQ2_XXS(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    const std::byte* q = b + 2 + 8 * i;
    const uint32_t w = U32(q + 4);
    const float db = d * (0.5f + static_cast<float>(w >> 28)) * 0.25f;
    for (int l = 0; l < 4; ++l) {
      SignedOctet(db, kIq2xxsGrid[U8(q + l)], EvenSigns((w >> (7 * l)) & 127), y + 32 * i + 8 * l);
    }
  }
}

// {0: half d; 2: u16 q[32]; 66: u8 scales[8]}: q is a 9-bit index and 7 sign bits.
void DecodeIQ2_XS(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    for (int l = 0; l < 4; ++l) {
      const int nibble = l < 2 ? Lo(b[66 + i]) : Hi(b[66 + i]);
      const float db = d * (0.5f + static_cast<float>(nibble)) * 0.25f;
      const uint32_t q = U16(b + 2 + 2 * (4 * i + l));
      SignedOctet(db, kIq2xsGrid[q & 511], EvenSigns(q >> 9), y + 32 * i + 8 * l);
    }
  }
}

// {0: half d; 2: u8 q[32]; 34: u8 signs[32]; 66: u8 high[8]; 74: u8 scales[8]}.
void DecodeIQ2_S(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    for (int l = 0; l < 4; ++l) {
      const int nibble = l < 2 ? Lo(b[74 + i]) : Hi(b[74 + i]);
      const float db = d * (0.5f + static_cast<float>(nibble)) * 0.25f;
      const int index = U8(b + 2 + 4 * i + l) | (((U8(b + 66 + i) >> (2 * l)) & 3) << 8);
      SignedOctet(db, kIq2sGrid[index], U8(b + 34 + 4 * i + l), y + 32 * i + 8 * l);
    }
  }
}

// {0: half d; 2: u8 q[64]; 66: u32 w[8]}.
void DecodeIQ3_XXS(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    const uint32_t w = U32(b + 66 + 4 * i);
    const float db = d * (0.5f + static_cast<float>(w >> 28)) * 0.5f;
    for (int l = 0; l < 4; ++l) {
      const std::byte* q = b + 2 + 8 * i + 2 * l;
      SignedOctet(db, TwoQuads(kIq3xxsGrid[U8(q)], kIq3xxsGrid[U8(q + 1)]),
                  EvenSigns((w >> (7 * l)) & 127), y + 32 * i + 8 * l);
    }
  }
}

// {0: half d; 2: u8 q[64]; 66: u8 high[8]; 74: u8 signs[32]; 106: u8 scales[4]}.
void DecodeIQ3_S(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    const int nibble = i % 2 == 0 ? Lo(b[106 + i / 2]) : Hi(b[106 + i / 2]);
    const float db = d * static_cast<float>(1 + 2 * nibble);
    const int high = U8(b + 66 + i);
    for (int l = 0; l < 4; ++l) {
      const std::byte* q = b + 2 + 8 * i + 2 * l;
      const int first = U8(q) | (((high >> (2 * l)) & 1) << 8);
      const int second = U8(q + 1) | (((high >> (2 * l + 1)) & 1) << 8);
      SignedOctet(db, TwoQuads(kIq3sGrid[first], kIq3sGrid[second]), U8(b + 74 + 4 * i + l),
                  y + 32 * i + 8 * l);
    }
  }
}

// Eight outputs of the one-bit types: dl * (-1, 0 or 1, moved by an eighth).
void ShiftedOctet(float dl, uint64_t grid, float delta, float* y) {
  for (int n = 0; n < 8; ++n) {
    const auto code = static_cast<int8_t>((grid >> (8 * n)) & 255);
    y[n] = dl * (static_cast<float>(code) + delta);
  }
}

// {0: half d; 2: u8 q[32]; 34: u16 high[8]}: 4 x 3 index bits, 3 scale bits, the sign of the shift.
void DecodeIQ1_S(const std::byte* b, float* y) {
  const float d = Half(b);
  for (int i = 0; i < 8; ++i) {
    const int high = U16(b + 34 + 2 * i);
    const float dl = d * static_cast<float>(2 * ((high >> 12) & 7) + 1);
    const float delta = (high & 0x8000) != 0 ? -0.125f : 0.125f;
    for (int l = 0; l < 4; ++l) {
      const int index = U8(b + 2 + 4 * i + l) | (((high >> (3 * l)) & 7) << 8);
      ShiftedOctet(dl, kIq1sGrid[index], delta, y + 32 * i + 8 * l);
    }
  }
}

// {0: u8 q[32]; 32: u8 high[16]; 48: u16 scales[4]}: the half d is spread over the scales' top
// bits.
void DecodeIQ1_M(const std::byte* b, float* y) {
  uint16_t d_bits = 0;
  for (int a = 0; a < 4; ++a) {
    d_bits = static_cast<uint16_t>(d_bits | ((U16(b + 48 + 2 * a) >> 12) << (4 * a)));
  }
  const float d = HalfToFloat(d_bits);
  for (int i = 0; i < 8; ++i) {
    const int scales = U16(b + 48 + 2 * (i / 2));
    for (int l = 0; l < 4; ++l) {
      const int scale = (scales >> (6 * (i & 1) + 3 * (l / 2))) & 7;
      const float dl = d * static_cast<float>(2 * scale + 1);
      const int nibble = (U8(b + 32 + 2 * i + l / 2) >> (4 * (l & 1))) & 15;
      const int index = U8(b + 4 * i + l) | ((nibble & 7) << 8);
      ShiftedOctet(dl, kIq1sGrid[index], (nibble & 8) != 0 ? -0.125f : 0.125f, y + 32 * i + 8 * l);
    }
  }
}

// {0: half d; 2: u16 high scales; 4: u8 low scales[4]; 8: u8 q[128]}.
void DecodeIQ4_XS(const std::byte* b, float* y) {
  const float d = Half(b);
  const int high = U16(b + 2);
  for (int i = 0; i < 8; ++i) {
    const int low = i % 2 == 0 ? Lo(b[4 + i / 2]) : Hi(b[4 + i / 2]);
    const float dl = d * static_cast<float>((low | (((high >> (2 * i)) & 3) << 4)) - 32);
    const std::byte* q = b + 8 + 16 * i;
    for (int j = 0; j < 16; ++j) {
      y[32 * i + j] = dl * static_cast<float>(kIq4nlValues[Lo(q[j])]);
      y[32 * i + 16 + j] = dl * static_cast<float>(kIq4nlValues[Hi(q[j])]);
    }
  }
}

// {0: u8 q[64]; 64: half d}.
void DecodeTQ2_0(const std::byte* b, float* y) {
  const float d = Half(b + 64);
  for (int g = 0; g < 8; ++g) {
    const std::byte* q = b + 32 * (g / 4);
    const int shift = 2 * (g % 4);
    for (int l = 0; l < 32; ++l) {
      y[32 * g + l] = static_cast<float>(((U8(q + l) >> shift) & 3) - 1) * d;
    }
  }
}

// {0: u8 q[48]; 48: u8 high[4]; 52: half d}: a byte is a fraction in base 3, digits from the top.
void DecodeTQ1_0(const std::byte* b, float* y) {
  static constexpr uint8_t kPow3[5] = {1, 3, 9, 27, 81};
  const float d = Half(b + 52);
  const auto trits = [&](const std::byte* q, int n_bytes, int n_trits) {
    for (int n = 0; n < n_trits; ++n) {
      for (int m = 0; m < n_bytes; ++m) {
        const auto shifted = static_cast<uint8_t>(U8(q + m) * kPow3[n]);
        *y++ = static_cast<float>(((shifted * 3) >> 8) - 1) * d;
      }
    }
  };
  trits(b, 32, 5);
  trits(b + 32, 16, 5);
  trits(b + 48, 4, 4);
}

template <int kBlockSize, int kBlockBytes, void (*kDecode)(const std::byte*, float*)>
void DecodeBlocks(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n / kBlockSize; ++i) kDecode(src + i * kBlockBytes, dst + i * kBlockSize);
}

void DecodeF16(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = Half(src + 2 * i);
}

void DecodeBF16(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = BFloat16ToFloat(U16(src + 2 * i));
}

}  // namespace

void DequantizeRow(QuantType type, const std::byte* src, int64_t n, float* dst) {
  switch (type) {
    case QuantType::kF32:
      if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case QuantType::kF16:
      return DecodeF16(src, n, dst);
    case QuantType::kBF16:
      return DecodeBF16(src, n, dst);
    case QuantType::kQ4_0:
      return DecodeBlocks<32, 18, DecodeQ4_0>(src, n, dst);
    case QuantType::kQ4_1:
      return DecodeBlocks<32, 20, DecodeQ4_1>(src, n, dst);
    case QuantType::kQ5_0:
      return DecodeBlocks<32, 22, DecodeQ5_0>(src, n, dst);
    case QuantType::kQ5_1:
      return DecodeBlocks<32, 24, DecodeQ5_1>(src, n, dst);
    case QuantType::kQ8_0:
      return DecodeBlocks<32, 34, DecodeQ8_0>(src, n, dst);
    case QuantType::kQ2_K:
      return DecodeBlocks<256, 84, DecodeQ2_K>(src, n, dst);
    case QuantType::kQ3_K:
      return DecodeBlocks<256, 110, DecodeQ3_K>(src, n, dst);
    case QuantType::kQ4_K:
      return DecodeBlocks<256, 144, DecodeQ4_K>(src, n, dst);
    case QuantType::kQ5_K:
      return DecodeBlocks<256, 176, DecodeQ5_K>(src, n, dst);
    case QuantType::kQ6_K:
      return DecodeBlocks<256, 210, DecodeQ6_K>(src, n, dst);
    case QuantType::kQ8_K:
      return DecodeBlocks<256, 292, DecodeQ8_K>(src, n, dst);
    case QuantType::kIQ2_XXS:
      return DecodeBlocks<256, 66, DecodeIQ2_XXS>(src, n, dst);
    case QuantType::kIQ2_XS:
      return DecodeBlocks<256, 74, DecodeIQ2_XS>(src, n, dst);
    case QuantType::kIQ2_S:
      return DecodeBlocks<256, 82, DecodeIQ2_S>(src, n, dst);
    case QuantType::kIQ3_XXS:
      return DecodeBlocks<256, 98, DecodeIQ3_XXS>(src, n, dst);
    case QuantType::kIQ3_S:
      return DecodeBlocks<256, 110, DecodeIQ3_S>(src, n, dst);
    case QuantType::kIQ1_S:
      return DecodeBlocks<256, 50, DecodeIQ1_S>(src, n, dst);
    case QuantType::kIQ1_M:
      return DecodeBlocks<256, 56, DecodeIQ1_M>(src, n, dst);
    case QuantType::kIQ4_NL:
      return DecodeBlocks<32, 18, DecodeIQ4_NL>(src, n, dst);
    case QuantType::kIQ4_XS:
      return DecodeBlocks<256, 136, DecodeIQ4_XS>(src, n, dst);
    case QuantType::kTQ1_0:
      return DecodeBlocks<256, 54, DecodeTQ1_0>(src, n, dst);
    case QuantType::kTQ2_0:
      return DecodeBlocks<256, 66, DecodeTQ2_0>(src, n, dst);
    case QuantType::kMXFP4:
      return DecodeBlocks<32, 17, DecodeMXFP4>(src, n, dst);
    case QuantType::kNVFP4:
      return DecodeBlocks<64, 36, DecodeNVFP4>(src, n, dst);
    case QuantType::kQ1_0:
      return DecodeBlocks<128, 18, DecodeQ1_0>(src, n, dst);
    case QuantType::kQ2_0:
      return DecodeBlocks<64, 18, DecodeQ2_0>(src, n, dst);
    case QuantType::kQ8_1:
    case QuantType::kI8:
    case QuantType::kI16:
    case QuantType::kI32:
    case QuantType::kI64:
    case QuantType::kF64:
      break;
  }
  HF_CHECK(!"DequantizeRow: a type that does not decode");
}

}  // namespace holdfast
