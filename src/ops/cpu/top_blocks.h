#ifndef HOLDFAST_OPS_CPU_TOP_BLOCKS_H_
#define HOLDFAST_OPS_CPU_TOP_BLOCKS_H_

#include <cstdint>

namespace holdfast {

// Writes the indices of the `k` largest of scores[0, n), ascending, to out[0, k). Ties go to the
// lower index. Scores are >= 0 (relu sums); NaN counts as the largest. k <= n.
// `scratch` holds n values.
void TopBlocks(const float* scores, int64_t n, int64_t k, uint32_t* scratch, int32_t* out);

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_TOP_BLOCKS_H_
