#ifndef HOLDFAST_ENGINE_LOGITS_ROW_H_
#define HOLDFAST_ENGINE_LOGITS_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/generator.h"
#include "token/vocabulary.h"

namespace holdfast {

// The largest logit of a row and the lowest id that has it.
struct RowMax {
  TokenId id = 0;
  float logit = 0.0f;
};

// One pass. kInternal, with the position in the row, when the row is empty or holds NaN or +inf, or
// when every entry is -inf.
Result<RowMax> FindMax(std::span<const float> logits);

// sum of e^((logit - max) / temperature) over the row, in double: entry i goes to lane i % 16, in
// ascending i, then lanes fold by 8, 4, 2, 1. `max` as FindMax gives it.
double SumExp(std::span<const float> logits, float max, double temperature);

struct RowLogprobs {
  float logprob = 0.0f;           // of the chosen token
  std::vector<TokenLogprob> top;  // the n best, best first, ties to the lower id
};

// Log-probabilities of the model itself: softmax of the unaltered row at temperature 1. Errors as
// FindMax. 0 <= n_top <= row size; `chosen` inside the row.
Result<RowLogprobs> ComputeLogprobs(std::span<const float> logits, TokenId chosen, int n_top);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_LOGITS_ROW_H_
