#ifndef HOLDFAST_OPS_CPU_INDEXER_TAIL_H_
#define HOLDFAST_OPS_CPU_INDEXER_TAIL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace holdfast {

// Takes the raw keys of positions [first, first + n) into a tail [ratio - 1, dim], where position p
// of the incomplete block has slot p % ratio. Slots without a key are zero, so that the bytes are a
// function of the tokens and not of how they were divided into steps.
inline void UpdateIndexerTail(int64_t ratio, int64_t dim, int64_t first, int64_t n,
                              const float* raw, float* tail) {
  const int64_t end = first + n, n_open = end % ratio;
  for (int64_t p = std::max(end - n_open, first); p < end; ++p) {
    std::memcpy(tail + p % ratio * dim, raw + (p - first) * dim, dim * sizeof(float));
  }
  std::memset(tail + n_open * dim, 0, (ratio - 1 - n_open) * dim * sizeof(float));
}

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_INDEXER_TAIL_H_
