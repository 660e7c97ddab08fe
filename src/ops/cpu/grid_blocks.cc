#include "ops/cpu/grid_blocks.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "weights/grid_tables.h"

// Byte offsets as in weights/dequantize.cc; `b` is a block.

namespace holdfast {
namespace {

int U8(const std::byte* p) { return static_cast<int>(*p); }
uint16_t U16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
uint32_t U32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
float Half(const std::byte* p) { return HalfToFloat(U16(p)); }

int8_t OddScale(uint32_t nibble) { return static_cast<int8_t>(2 * (nibble & 15) + 1); }

// Octet o: eight columns.
void SetOctet(uint64_t grid, uint32_t signs, int o, GridBlock* out) {
  for (int n = 0; n < 8; ++n) {
    const auto magnitude = static_cast<int8_t>((grid >> (8 * n)) & 255);
    out->values[8 * o + n] = static_cast<int8_t>(((signs >> n) & 1) != 0 ? -magnitude : magnitude);
  }
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
  float d_factor;
  int n_scales;
};

RepackedForm FormOf(QuantType type) {
  switch (type) {
    case QuantType::kIQ2_XXS:
      return {kIq2Magnitudes, 0.125f, 8};
    case QuantType::kIQ2_XS:
    case QuantType::kIQ2_S:
      return {kIq2Magnitudes, 0.125f, 16};
    case QuantType::kIQ3_XXS:
      return {kIq3XxsMagnitudes, 0.25f, 8};
    default:
      HF_CHECK(type == QuantType::kIQ3_S);
      return {kIq3SMagnitudes, 1.0f, 8};
  }
}

// The code of each value, at value + 128.
std::array<uint8_t, 256> CodesOf(const RepackedForm& form) {
  std::array<uint8_t, 256> codes{};
  for (uint8_t i = 0; i < 8 && form.magnitudes[i] != 0; ++i) {
    codes[static_cast<size_t>(128 + form.magnitudes[i])] = i;
    codes[static_cast<size_t>(128 - form.magnitudes[i])] = i | 8;
  }
  return codes;
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
  for (int j = 0; j < 256; ++j) {
    const int c = j / 64, high = j / 32 % 2;
    const int code = (U8(codes + 32 * c + j % 32) >> (4 * high)) & 15;
    const int8_t magnitude = form.magnitudes[static_cast<size_t>(code & 7)];
    out->values[j] = static_cast<int8_t>((code & 8) != 0 ? -magnitude : magnitude);
  }
}

void RepackBlocks(QuantType type, const std::byte* blocks, int64_t n_blocks, std::byte* out) {
  const RepackedForm form = FormOf(type);
  const std::array<uint8_t, 256> code_of = CodesOf(form);
  const auto code = [&](int8_t value) { return code_of[static_cast<size_t>(128 + value)]; };
  const int64_t in_bytes = InfoOf(type).block_bytes, out_bytes = RepackedBlockBytes(type);
  GridBlock grid;
  for (int64_t n = 0; n < n_blocks; ++n, blocks += in_bytes, out += out_bytes) {
    UnpackGridBlock(type, blocks, &grid);
    std::memcpy(out, blocks, 2);  // d comes first in all of them
    for (int i = 0; i < form.n_scales; ++i) {
      out[2 + i] = static_cast<std::byte>(grid.scales[i * 16 / form.n_scales]);
    }
    std::byte* codes = out + 2 + form.n_scales;
    for (int c = 0; c < 4; ++c) {
      const int8_t* values = grid.values + 64 * c;
      for (int j = 0; j < 32; ++j) {
        codes[32 * c + j] = static_cast<std::byte>(code(values[j]) | code(values[32 + j]) << 4);
      }
    }
  }
}

}  // namespace holdfast
