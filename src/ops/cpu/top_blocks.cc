#include "ops/cpu/top_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace holdfast {

void TopBlocks(const float* scores, int64_t n, int64_t k, uint32_t* scratch, int32_t* out) {
  if (k == 0) return;
  // Non-negative floats order as their bits do.
  for (int64_t i = 0; i < n; ++i) scratch[i] = std::bit_cast<uint32_t>(scores[i] + 0.0f);
  uint32_t threshold = 0;
  if (k < n) {
    std::nth_element(scratch, scratch + (k - 1), scratch + n, std::greater<>());
    threshold = scratch[k - 1];
  }
  const int64_t above =
      std::count_if(scratch, scratch + k, [&](uint32_t s) { return s > threshold; });
  int64_t ties = k - above;
  int64_t n_out = 0;
  for (int64_t i = 0; i < n && n_out < k; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(scores[i] + 0.0f);
    if (bits > threshold || (bits == threshold && ties-- > 0))
      out[n_out++] = static_cast<int32_t>(i);
  }
}

}  // namespace holdfast
