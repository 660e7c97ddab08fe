#ifndef HOLDFAST_ENGINE_PHILOX_H_
#define HOLDFAST_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace holdfast {

// Philox4x32-10 as published (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011): a block of four random words from a counter and a key, with no state.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The random number of the row at `position` of a request with `seed`: the top 24 bits of word 0 of
// the block at counter (position, 0), key seed, low words first. In [0, 1), exact in float.
double UniformAt(uint64_t seed, int64_t position);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PHILOX_H_
