#ifndef HOLDFAST_ENGINE_PROMPT_LOOKUP_H_
#define HOLDFAST_ENGINE_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "token/vocabulary.h"

namespace holdfast {

// Guesses for what follows `tokens`: the tokens, at most `max_drafts`, that followed their longest
// earlier n-gram equal to the last ones; of equally long ones the newest. None when fewer than
// kFewestTokens agree. Looks at the last kLookBack tokens; about 0.1 ms at most.
std::vector<TokenId> LookUpDrafts(std::span<const TokenId> tokens, int64_t max_drafts);

inline constexpr int64_t kFewestTokens = 3;    // two in a row recur by chance too often
inline constexpr int64_t kEnoughTokens = 16;   // a longer n-gram is no better
inline constexpr int64_t kLookBack = 1 << 16;  // tokens

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PROMPT_LOOKUP_H_
