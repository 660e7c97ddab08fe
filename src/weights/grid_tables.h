#ifndef HOLDFAST_WEIGHTS_GRID_TABLES_H_
#define HOLDFAST_WEIGHTS_GRID_TABLES_H_

#include <array>
#include <bit>
#include <cstdint>

// Code books of the quantised types. Entries of a grid are packed: byte n, from the low end, is the
// magnitude of output n.

namespace holdfast {

extern const std::array<uint64_t, 256> kIq2xxsGrid;
extern const std::array<uint64_t, 512> kIq2xsGrid;
extern const std::array<uint64_t, 1024> kIq2sGrid;
extern const std::array<uint32_t, 256> kIq3xxsGrid;
extern const std::array<uint32_t, 512> kIq3sGrid;
extern const std::array<uint64_t, 2048> kIq1sGrid;  // bytes are signed: -1, 0, 1; also IQ1_M

// IQ4_NL and IQ4_XS.
inline constexpr std::array<int8_t, 16> kIq4nlValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 doubled: MXFP4 and NVFP4.
inline constexpr std::array<int8_t, 16> kFp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                      0, -1, -2, -3, -4, -6, -8, -12};

// Sign bits of 8 values from the 7 stored ones: the number of minus signs is even.
constexpr uint8_t EvenSigns(uint32_t seven_bits) {
  return static_cast<uint8_t>(seven_bits | ((std::popcount(seven_bits) & 1u) << 7));
}

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_GRID_TABLES_H_
