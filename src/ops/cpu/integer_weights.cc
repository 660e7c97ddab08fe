#include "ops/cpu/integer_weights.h"

#include "base/check.h"
#include "ops/cpu/block_bytes.h"
#include "ops/cpu/grid_blocks.h"
#include "ops/cpu/kernels.h"
#include "weights/grid_tables.h"

// Byte offsets as in weights/dequantize.cc; `b` is a block.

namespace holdfast {
namespace {

using block_bytes::Half;
using block_bytes::U16;
using block_bytes::U32;
using block_bytes::U8;

int I8(const std::byte* p) { return static_cast<int8_t>(*p); }
int Lo(std::byte b) { return static_cast<int>(b) & 15; }
int Hi(std::byte b) { return static_cast<int>(b) >> 4; }

// 32 nibbles: low ones are values 0..15, high ones 16..31.
void Nibbles(const std::byte* q, int32_t* w) {
  for (int j = 0; j < 16; ++j) {
    w[j] = Lo(q[j]);
    w[j + 16] = Hi(q[j]);
  }
}

void Offset(int32_t* w, int n, int by) {
  for (int j = 0; j < n; ++j) w[j] += by;
}

void FifthBits(uint32_t high, int32_t* w) {
  for (int j = 0; j < 32; ++j) w[j] |= static_cast<int32_t>((high >> j) & 1) << 4;
}

// The minimum of a type of 32 values is stored whole: M is the plain sum of the codes.
void PlainMin(float m, IntegerGroup* out) {
  out->has_min = true;
  out->m = m;
  out->mins[0] = out->mins[1] = 1;
}

void UnpackQ2_K(const std::byte* b, IntegerGroup* out) {
  out->d = Half(b + 80);
  out->m = -Half(b + 82);
  out->has_min = true;
  for (int g = 0; g < 16; ++g) {
    const std::byte* q = b + 16 + 32 * (g / 8) + 16 * (g % 2);
    const int shift = 2 * ((g % 8) / 2);
    out->mins[g] = Hi(b[g]);
    for (int l = 0; l < 16; ++l) {
      out->weights[16 * g + l] = Lo(b[g]) * ((U8(q + l) >> shift) & 3);
    }
  }
}

void UnpackQ3_K(const std::byte* b, IntegerGroup* out) {
  out->d = Half(b + 108);
  const std::byte* s = b + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? Lo(s[g]) : Hi(s[g - 8]);
    const int scale = (low | (((U8(s + 8 + g % 4) >> (2 * (g / 4))) & 3) << 4)) - 32;
    const std::byte* q = b + 32 + 32 * (g / 8) + 16 * (g % 2);
    const std::byte* mask = b + 16 * (g % 2);
    for (int l = 0; l < 16; ++l) {
      const int low_bits = (U8(q + l) >> (2 * ((g % 8) / 2))) & 3;
      const int high_bit = (U8(mask + l) >> (g / 2)) & 1;
      out->weights[16 * g + l] = scale * (low_bits - (high_bit != 0 ? 0 : 4));
    }
  }
}

// Q4_K and Q5_K; `high` is null or the 32 bytes of fifth bits.
void UnpackQ45_K(const std::byte* b, const std::byte* high, const std::byte* nibbles,
                 IntegerGroup* out) {
  out->d = Half(b);
  out->m = -Half(b + 2);
  out->has_min = true;
  const std::byte* s = b + 4;
  for (int g = 0; g < 8; ++g) {
    int scale, min;
    if (g < 4) {
      scale = U8(s + g) & 63;
      min = U8(s + g + 4) & 63;
    } else {
      scale = Lo(s[g + 4]) | ((U8(s + g - 4) >> 6) << 4);
      min = Hi(s[g + 4]) | ((U8(s + g) >> 6) << 4);
    }
    out->mins[2 * g] = out->mins[2 * g + 1] = min;
    for (int l = 0; l < 32; ++l) {
      int code = (U8(nibbles + 32 * (g / 2) + l) >> (4 * (g % 2))) & 15;
      if (high != nullptr) code |= ((U8(high + l) >> g) & 1) << 4;
      out->weights[32 * g + l] = scale * code;
    }
  }
}

void UnpackQ6_K(const std::byte* b, IntegerGroup* out) {
  out->d = Half(b + 208);
  for (int j = 0; j < 256; ++j) {
    const int half = j / 128, r = (j % 128) / 32, l = j % 32;
    const int low = (U8(b + 64 * half + 32 * (r & 1) + l) >> (4 * (r >> 1))) & 15;
    const int high = (U8(b + 128 + 32 * half + l) >> (2 * r)) & 3;
    out->weights[j] = I8(b + 192 + j / 16) * ((low | (high << 4)) - 32);
  }
}

void UnpackIQ4_XS(const std::byte* b, IntegerGroup* out) {
  out->d = Half(b);
  const int high = U16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = g % 2 == 0 ? Lo(b[4 + g / 2]) : Hi(b[4 + g / 2]);
    const int scale = (low | (((high >> (2 * g)) & 3) << 4)) - 32;
    int32_t* w = out->weights + 32 * g;
    Nibbles(b + 8 + 16 * g, w);
    for (int j = 0; j < 32; ++j) w[j] = scale * kIq4nlValues[static_cast<size_t>(w[j])];
  }
}

// The integer is scale times signed grid value.
void UnpackGrid(const GridBlock& block, IntegerGroup* out) {
  out->d = block.d;
  for (int j = 0; j < 256; ++j) out->weights[j] = block.scales[j / 16] * block.Value(j);
}

}  // namespace

bool HasIntegerKernel(QuantType type) {
  switch (type) {
    case QuantType::kQ4_0:
    case QuantType::kQ4_1:
    case QuantType::kQ5_0:
    case QuantType::kQ5_1:
    case QuantType::kQ8_0:
    case QuantType::kQ2_K:
    case QuantType::kQ3_K:
    case QuantType::kQ4_K:
    case QuantType::kQ5_K:
    case QuantType::kQ6_K:
    case QuantType::kIQ2_XXS:
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
    case QuantType::kIQ3_XXS:
    case QuantType::kIQ3_S:
    case QuantType::kIQ4_NL:
    case QuantType::kIQ4_XS:
    case QuantType::kQ2_0:
      return true;
    default:
      return false;
  }
}

int ActivationGroup(QuantType type) { return InfoOf(type).block_size <= 64 ? 32 : 256; }

void UnpackIntegerGroup(QuantType type, const std::byte* row, int64_t group, IntegerGroup* out) {
  const std::byte* b = row + group * InfoOf(type).block_bytes;
  int32_t* w = out->weights;
  out->has_min = false;
  switch (type) {
    case QuantType::kQ8_0:
      out->d = Half(b);
      for (int j = 0; j < 32; ++j) w[j] = I8(b + 2 + j);
      return;
    case QuantType::kQ4_0:
      out->d = Half(b);
      Nibbles(b + 2, w);
      return Offset(w, 32, -8);
    case QuantType::kQ4_1:
      out->d = Half(b);
      PlainMin(Half(b + 2), out);
      return Nibbles(b + 4, w);
    case QuantType::kQ5_0:
      out->d = Half(b);
      Nibbles(b + 6, w);
      FifthBits(U32(b + 2), w);
      return Offset(w, 32, -16);
    case QuantType::kQ5_1:
      out->d = Half(b);
      PlainMin(Half(b + 2), out);
      Nibbles(b + 8, w);
      return FifthBits(U32(b + 4), w);
    case QuantType::kIQ4_NL:
      out->d = Half(b);
      Nibbles(b + 2, w);
      for (int j = 0; j < 32; ++j) w[j] = kIq4nlValues[static_cast<size_t>(w[j])];
      return;
    case QuantType::kQ2_0:  // a block of 64 is two groups
      b = row + group / 2 * InfoOf(type).block_bytes;
      out->d = Half(b);
      for (int j = 0; j < 32; ++j) {
        w[j] = ((U8(b + 2 + 8 * (group % 2) + j / 4) >> (2 * (j % 4))) & 3) - 1;
      }
      return;
    case QuantType::kQ2_K:
      return UnpackQ2_K(b, out);
    case QuantType::kQ3_K:
      return UnpackQ3_K(b, out);
    case QuantType::kQ4_K:
      return UnpackQ45_K(b, nullptr, b + 16, out);
    case QuantType::kQ5_K:
      return UnpackQ45_K(b, b + 16, b + 48, out);
    case QuantType::kQ6_K:
      return UnpackQ6_K(b, out);
    case QuantType::kIQ4_XS:
      return UnpackIQ4_XS(b, out);
    case QuantType::kIQ2_XXS:
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
    case QuantType::kIQ3_XXS:
    case QuantType::kIQ3_S: {
      GridBlock block;
      UnpackGridBlock(type, b, &block);
      return UnpackGrid(block, out);
    }
    default:
      HF_CHECK(!"UnpackIntegerGroup: a type without an integer kernel");
  }
}

void UnpackRepackedGroup(QuantType type, const std::byte* row, int64_t group, IntegerGroup* out) {
  GridBlock block;
  UnpackRepackedBlock(type, row + group * RepackedBlockBytes(type), &block);
  out->has_min = false;
  UnpackGrid(block, out);
}

}  // namespace holdfast
