#include "server/thinking_budget.h"

#include <algorithm>

namespace holdfast {

int64_t ThinkingLimit(const ThinkingBudget& budget, int64_t n_reply) {
  if (!budget.answer_room) return budget.tokens;
  const int64_t left = n_reply - std::min(n_reply / 2, kAnswerRoom);
  return budget.tokens < 0 ? left : std::min(budget.tokens, left);
}

}  // namespace holdfast
