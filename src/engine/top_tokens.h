#ifndef HOLDFAST_ENGINE_TOP_TOKENS_H_
#define HOLDFAST_ENGINE_TOP_TOKENS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

// The tokens of a row in sampling order (descending logit, ties by ascending id), sorted only as
// far as somebody looks: most draws end within the first dozen of 248,320.
//
// -inf entries are not listed. The row must hold no NaN and stay unchanged until the next Reset.
class TopTokens {
 public:
  void Reset(std::span<const float> logits);
  // The i-th token. 0 <= i < number of listed tokens.
  TokenId operator[](int64_t i);
  // Sorts at least the first `n` now (all, if there are fewer). Returns how many are sorted.
  int64_t Extend(int64_t n);

 private:
  void Select(int64_t n);

  std::span<const float> logits_;
  // Keys that order as wanted: inverted order-preserving bits of the logit, then the id.
  std::vector<uint64_t> keys_;
  int64_t n_sorted_ = 0;
  bool complete_ = false;  // keys_ holds every listed token
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_TOP_TOKENS_H_
