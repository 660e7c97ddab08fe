#ifndef HOLDFAST_SERVER_REASONING_EFFORT_H_
#define HOLDFAST_SERVER_REASONING_EFFORT_H_

#include <string_view>

#include "server/thinking_budget.h"
#include "token/chat_template.h"

namespace holdfast {

// The words an effort may be, for messages.
inline constexpr char kReasoningEfforts[] = "none, off, minimal, low, medium, high, xhigh or max";

// none and off turn thinking off; minimal and low mean the template's "low", medium "medium", high,
// xhigh and max "xhigh", and turn it on. Low and medium also limit its tokens: a template that does
// not know of efforts cannot. False, and nothing changed, for any other word.
bool ApplyReasoningEffort(std::string_view effort, ChatTemplate::Input* input,
                          ThinkingBudget* budget = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REASONING_EFFORT_H_
