#include "engine/prompt_lookup.h"

#include <algorithm>

namespace holdfast {

std::vector<TokenId> LookUpDrafts(std::span<const TokenId> tokens, int64_t max_drafts) {
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t first = std::max<int64_t>(size - kLookBack, 0);
  int64_t longest = kFewestTokens - 1, follower = size;
  for (int64_t end = size - 1; end > first && longest < kEnoughTokens; --end) {
    int64_t n = 0;
    while (n < kEnoughTokens && end - n > first && tokens[end - 1 - n] == tokens[size - 1 - n]) ++n;
    if (n > longest) longest = n, follower = end;
  }
  const int64_t n_drafts = std::min(std::max<int64_t>(max_drafts, 0), size - follower);
  const auto begin = tokens.begin() + follower;
  return {begin, begin + n_drafts};
}

}  // namespace holdfast
