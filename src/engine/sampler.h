#ifndef HOLDFAST_ENGINE_SAMPLER_H_
#define HOLDFAST_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/sampling_params.h"
#include "engine/top_tokens.h"
#include "grammar/token_mask.h"
#include "token/vocabulary.h"

namespace holdfast {

// Draws the next token of one request from the whole vocabulary.
//
// The token is a function of (logits, params, the history's last penalty_last_n tokens, seed,
// position, allowed) only: no state, no C library function, one order of every sum. Steps: what a
// grammar does not allow becomes -inf, logit bias, penalties, top-k, top-p, min-p, temperature,
// draw (SamplingParams). Tokens are ordered by descending logit, ties by ascending id; each filter
// keeps a prefix of that order.
//
//   top-p  softmax at temperature 1 over what top-k kept, in double; keeps up to and with the
//          first token whose cumulative probability reaches top_p
//   min-p  keeps logits >= max + ln(min_p)
//   draw   u = UniformAt(seed, position); the first token whose cumulative probability at the
//          temperature exceeds u
//
// Cost:    a step that is switched off costs nothing; greedy is one pass over the row.
// Threads: one at a time (it owns scratch memory).
class Sampler {
 public:
  // `params` must have passed Validate(); its own seed is not looked at.
  Sampler(SamplingParams params, uint64_t seed);

  // `logits`: the row, [vocab_size]; -inf entries are banned tokens. `history`: all tokens so far,
  // prompt included. `position`: of the row that gave the logits, i.e. of the last token of the
  // history in the conversation. `allowed`: what a grammar lets follow; null: everything.
  // kInternal when the row holds NaN or +inf (at whatever token), or bans every token;
  // kInvalidArgument when bans leave no token that the grammar allows.
  Result<TokenId> Sample(std::span<const float> logits, std::span<const TokenId> history,
                         int64_t position, const TokenMask* allowed = nullptr);

  const SamplingParams& params() const { return params_; }
  uint64_t seed() const { return seed_; }

 private:
  bool has_penalties() const;
  void Ban(const TokenMask& allowed);
  void Penalise(std::span<const TokenId> history);
  double SumKept(std::span<const float> logits, int64_t n_kept, float max_logit,
                 double temperature);
  int64_t TopPCount(std::span<const float> logits, int64_t n_kept, float max_logit);
  int64_t MinPCount(std::span<const float> logits, int64_t n_kept, float max_logit);
  TokenId Draw(std::span<const float> logits, int64_t n_kept, float max_logit, double u);

  SamplingParams params_;
  uint64_t seed_;
  std::vector<float> adjusted_;  // the row with bans, bias and penalties, when there are any
  std::vector<int32_t> counts_;  // per token, in the penalty window; zero between calls
  TopTokens top_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_SAMPLER_H_
