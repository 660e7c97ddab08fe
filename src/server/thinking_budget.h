#ifndef HOLDFAST_SERVER_THINKING_BUDGET_H_
#define HOLDFAST_SERVER_THINKING_BUDGET_H_

#include <cstdint>

namespace holdfast {

// How long a reply may think. Thinking that reaches its limit is closed, and the answer follows.
struct ThinkingBudget {
  int64_t tokens = -1;      // -1: no limit but the answer's room; 0: none at all
  bool answer_room = true;  // thinking leaves half of the reply, at most kAnswerRoom tokens
};

// An answer that needs more than this is rarely worth less thinking.
inline constexpr int64_t kAnswerRoom = 4096;

// Tokens of thinking after which it is closed, in a reply of at most `n_reply` tokens; -1: never.
int64_t ThinkingLimit(const ThinkingBudget& budget, int64_t n_reply);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_THINKING_BUDGET_H_
