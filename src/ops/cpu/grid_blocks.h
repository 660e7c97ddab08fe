#ifndef HOLDFAST_OPS_CPU_GRID_BLOCKS_H_
#define HOLDFAST_OPS_CPU_GRID_BLOCKS_H_

// Blocks of the grid types (IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S): 256 columns whose magnitudes
// files hold as indices into code books. A look-up for every four or eight columns costs more than
// the memory that it saves, so such weights may be repacked: the same integers and scales, with the
// column itself as a code of four bits.
//
// Repacked block: d (fp16, as the file has it); one byte for the scale of each 32 columns (IQ2_XS
// and IQ2_S: of each 16); 128 bytes of codes. Byte 32 c + j of these holds column 64 c + j in its
// low and column 64 c + 32 + j in its high nibble. Bits 0-2 of a code are the magnitude's place
// among those of the type, bit 3 is set for its negative.

#include <array>
#include <cstddef>
#include <cstdint>

#include "weights/quant_type.h"

namespace holdfast {

// Magnitudes that occur in the code books, ascending; places that are not used are zero.
inline constexpr std::array<int8_t, 8> kIq2Magnitudes = {8, 25, 43};
inline constexpr std::array<int8_t, 8> kIq3XxsMagnitudes = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::array<int8_t, 8> kIq3SMagnitudes = {1, 3, 5, 7, 9, 11, 13, 15};

// weight[c] = d * scales[c / 16] * Value(c).
struct GridBlock {
  float d = 0.0f;           // with the type's factor
  int8_t scales[16];        // odd, 1 .. 31
  uint64_t magnitudes[32];  // of eight columns each, the first one lowest
  uint8_t signs[32];        // bits: negative

  int Value(int c) const {
    const int magnitude = static_cast<int>(magnitudes[c / 8] >> (8 * (c % 8)) & 255);
    return ((signs[c / 8] >> (c % 8)) & 1) != 0 ? -magnitude : magnitude;
  }
};

bool IsGridType(QuantType type);
// All below: of a grid type.
void UnpackGridBlock(QuantType type, const std::byte* block, GridBlock* out);

int64_t RepackedBlockBytes(QuantType type);
void UnpackRepackedBlock(QuantType type, const std::byte* block, GridBlock* out);
// n_blocks blocks behind each other, from a file's form to the repacked one.
void RepackBlocks(QuantType type, const std::byte* blocks, int64_t n_blocks, std::byte* out);

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_GRID_BLOCKS_H_
