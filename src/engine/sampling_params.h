#ifndef HOLDFAST_ENGINE_SAMPLING_PARAMS_H_
#define HOLDFAST_ENGINE_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "token/vocabulary.h"

namespace holdfast {

// How the next token is drawn from the logits. Set by flags, then by the request, in that order.
// The steps run in the order of the fields: bias, penalties, top-k, top-p, min-p, temperature.
struct SamplingParams {
  std::vector<std::pair<TokenId, float>> logit_bias;  // added; -inf bans the token
  float repeat_penalty = 1.0f;     // > 0; logits <= 0 are multiplied by it, others divided
  float frequency_penalty = 0.0f;  // [-2, 2]; subtracted once per occurrence
  float presence_penalty = 0.0f;   // [-2, 2]; subtracted once if the token occurs
  int penalty_last_n = 64;         // tokens looked back, prompt included; 0: none, -1: all
  int top_k = 0;                   // keep the k largest logits; 0 keeps all
  float top_p = 1.0f;        // keep the fewest tokens whose probability sums to >= top_p; (0, 1]
  float min_p = 0.0f;        // keep logits >= max + ln(min_p); [0, 1]
  float temperature = 0.0f;  // 0 picks the argmax; otherwise logits are divided by it
  std::optional<uint64_t> seed;  // none: a random one is drawn and reported

  // OK, or kInvalidArgument naming the field, its value and the allowed range.
  Status Validate(int64_t vocab_size) const;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_SAMPLING_PARAMS_H_
