#ifndef HOLDFAST_MODEL_NGRAM_ROWS_H_
#define HOLDFAST_MODEL_NGRAM_ROWS_H_

#include <cstdint>
#include <span>

#include "weights/model_config.h"

namespace holdfast {

// Table rows of the hashed n-gram embedding (spec: qwen4exp, 7.1) for positions
// [first, tokens.size()) of a conversation. `out` is [tokens.size() - first, ple.n_heads].
void NgramRows(const PleConfig& ple, std::span<const int32_t> tokens, int64_t first,
               std::span<int64_t> out);

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_NGRAM_ROWS_H_
