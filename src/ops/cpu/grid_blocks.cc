#include "ops/cpu/grid_blocks.h"

#include <cstring>

#include "base/check.h"
#include "ops/cpu/block_bytes.h"
#include "weights/grid_tables.h"

// Byte offsets as in weights/dequantize.cc; `b` is a block.

namespace holdfast {
namespace {

using block_bytes::Half;
using block_bytes::U16;
using block_bytes::U32;
using block_bytes::U8;

int8_t OddScale(uint32_t nibble) { return static_cast<int8_t>(2 * (nibble & 15) + 1); }

// Octet o: eight columns.
void SetOctet(uint64_t grid, uint32_t signs, int o, GridBlock* out) {
  out->magnitudes[o] = grid;
  out->signs[o] = static_cast<uint8_t>(signs);
}

void SetScale32(int group, uint32_t nibble, GridBlock* out) {
  out->scales[2 * group] = out->scales[2 * group + 1] = OddScale(nibble);
}

uint64_t TwoQuads(size_t first, size_t second, const auto& grid) {
  return grid[first] | (uint64_t{grid[second]} << 32);
}
size_t Index(const std::byte* p, int high = 0) { return static_cast<size_t>(U8(p) | high << 8); }

void UnpackIQ2_XXS(const std::byte* b, GridBlock* out) {
  out->d = Half(b) * 0.125f;
  for (int g = 0; g < 8; ++g) {
    const std::byte* q = b + 2 + 8 * g;
    const uint32_t w = U32(q + 4);
    SetScale32(g, w >> 28, out);
    for (int l = 0; l < 4; ++l) {
      SetOctet(kIq2xxsGrid[Index(q + l)], EvenSigns((w >> (7 * l)) & 127), 4 * g + l, out);
    }
  }
}

// Scales of IQ2_XS and IQ2_S: nibbles of 8 bytes, one per 16 columns.
void SetNibbleScales(const std::byte* p, GridBlock* out) {
  for (int i = 0; i < 16; ++i) {
    out->scales[i] = OddScale(static_cast<uint32_t>(U8(p + i / 2) >> (4 * (i % 2))));
  }
}

void UnpackIQ2_XS(const std::byte* b, GridBlock* out) {
  out->d = Half(b) * 0.125f;
  SetNibbleScales(b + 66, out);
  for (int o = 0; o < 32; ++o) {
    const uint32_t q = U16(b + 2 + 2 * o);
    SetOctet(kIq2xsGrid[q & 511], EvenSigns(q >> 9), o, out);
  }
}

void UnpackIQ2_S(const std::byte* b, GridBlock* out) {
  out->d = Half(b) * 0.125f;
  SetNibbleScales(b + 74, out);
  for (int o = 0; o < 32; ++o) {
    const int high = (U8(b + 66 + o / 4) >> (2 * (o % 4))) & 3;
    SetOctet(kIq2sGrid[Index(b + 2 + o, high)], static_cast<uint32_t>(U8(b + 34 + o)), o, out);
  }
}

void UnpackIQ3_XXS(const std::byte* b, GridBlock* out) {
  out->d = Half(b) * 0.25f;
  for (int g = 0; g < 8; ++g) {
    const uint32_t w = U32(b + 66 + 4 * g);
    SetScale32(g, w >> 28, out);
    for (int l = 0; l < 4; ++l) {
      const std::byte* q = b + 2 + 8 * g + 2 * l;
      SetOctet(TwoQuads(Index(q), Index(q + 1), kIq3xxsGrid), EvenSigns((w >> (7 * l)) & 127),
               4 * g + l, out);
    }
  }
}

void UnpackIQ3_S(const std::byte* b, GridBlock* out) {
  out->d = Half(b);
  for (int g = 0; g < 8; ++g) {
    SetScale32(g, static_cast<uint32_t>(U8(b + 106 + g / 2) >> (4 * (g % 2))), out);
    const int high = U8(b + 66 + g);
    for (int l = 0; l < 4; ++l) {
      const std::byte* q = b + 2 + 8 * g + 2 * l;
      SetOctet(TwoQuads(Index(q, (high >> (2 * l)) & 1), Index(q + 1, (high >> (2 * l + 1)) & 1),
                        kIq3sGrid),
               static_cast<uint32_t>(U8(b + 74 + 4 * g + l)), 4 * g + l, out);
    }
  }
}

struct RepackedForm {
  const std::array<int8_t, 8>& magnitudes;
  int shift;  // magnitude >> shift is its place among them
  float d_factor;
  int n_scales;
};

RepackedForm FormOf(QuantType type) {
  switch (type) {
    case QuantType::kIQ2_XXS:
      return {kIq2Magnitudes, 4, 0.125f, 8};
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
      return {kIq2Magnitudes, 4, 0.125f, 16};
    case QuantType::kIQ3_XXS:
      return {kIq3XxsMagnitudes, 3, 0.25f, 8};
    default:
      HF_CHECK(type == QuantType::kIQ3_S);
      return {kIq3SMagnitudes, 1, 1.0f, 8};
  }
}

// The codes of an octet, one in each byte.
uint64_t CodesOf(uint64_t magnitudes, uint8_t signs, int shift) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  // Bit n in byte n, then moved to bit 3 by way of bit 7.
  const uint64_t bits = (signs * kOnes) & 0x8040201008040201;
  const uint64_t negative = ((bits + 0x7f * kOnes) & (0x80 * kOnes)) >> 4;
  return ((magnitudes >> shift) & (7 * kOnes)) | negative;
}

}  // namespace

bool IsGridType(QuantType type) {
  return type == QuantType::kIQ2_XXS || type == QuantType::kIQ2_XS || type == QuantType::kIQ2_S ||
         type == QuantType::kIQ3_XXS || type == QuantType::kIQ3_S;
}

void UnpackGridBlock(QuantType type, const std::byte* block, GridBlock* out) {
  switch (type) {
    case QuantType::kIQ2_XXS:
      return UnpackIQ2_XXS(block, out);
    case QuantType::kIQ2_XS:
      return UnpackIQ2_XS(block, out);
    case QuantType::kIQ2_S:
      return UnpackIQ2_S(block, out);
    case QuantType::kIQ3_XXS:
      return UnpackIQ3_XXS(block, out);
    default:
      HF_CHECK(type == QuantType::kIQ3_S);
      return UnpackIQ3_S(block, out);
  }
}

int64_t RepackedBlockBytes(QuantType type) { return 2 + FormOf(type).n_scales + 128; }

void UnpackRepackedBlock(QuantType type, const std::byte* block, GridBlock* out) {
  const RepackedForm form = FormOf(type);
  out->d = Half(block) * form.d_factor;
  for (int i = 0; i < 16; ++i) {
    out->scales[i] = static_cast<int8_t>(U8(block + 2 + i * form.n_scales / 16));
  }
  const std::byte* codes = block + 2 + form.n_scales;
  for (int o = 0; o < 32; ++o) {
    out->magnitudes[o] = 0;
    out->signs[o] = 0;
    for (int n = 0; n < 8; ++n) {
      const int column = 8 * o + n, c = column / 64, high = column / 32 % 2;
      const int code = (U8(codes + 32 * c + column % 32) >> (4 * high)) & 15;
      out->magnitudes[o] |= static_cast<uint64_t>(form.magnitudes[static_cast<size_t>(code & 7)])
                            << (8 * n);
      out->signs[o] = static_cast<uint8_t>(out->signs[o] | (code >> 3) << n);
    }
  }
}

void RepackBlocks(QuantType type, const std::byte* blocks, int64_t n_blocks, std::byte* out) {
  const RepackedForm form = FormOf(type);
  const int64_t in_bytes = InfoOf(type).block_bytes, out_bytes = RepackedBlockBytes(type);
  GridBlock grid;
  const auto codes_of = [&](int o) {
    return CodesOf(grid.magnitudes[o], grid.signs[o], form.shift);
  };
  for (int64_t n = 0; n < n_blocks; ++n, blocks += in_bytes, out += out_bytes) {
    UnpackGridBlock(type, blocks, &grid);
    std::memcpy(out, blocks, 2);  // d comes first in all of them
    for (int i = 0; i < form.n_scales; ++i) {
      out[2 + i] = static_cast<std::byte>(grid.scales[i * 16 / form.n_scales]);
    }
    std::byte* codes = out + 2 + form.n_scales;
    for (int o = 0; o < 16; ++o, codes += 8) {
      const int low = 8 * (o / 4) + o % 4;  // octet of the low nibbles; the high ones are 32 on
      const uint64_t both = codes_of(low) | codes_of(low + 4) << 4;
      for (int j = 0; j < 8; ++j) codes[j] = static_cast<std::byte>(both >> (8 * j));
    }
  }
}

}  // namespace holdfast
