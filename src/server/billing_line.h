#ifndef HOLDFAST_SERVER_BILLING_LINE_H_
#define HOLDFAST_SERVER_BILLING_LINE_H_

#include <string>

#include "server/json.h"

namespace holdfast {

// Claude Code begins its system prompt with a line for its maker's billing:
//   x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;
// Two of its values change with every request, so that nothing behind it could ever be reused. A
// system prompt that begins with exactly this (the name, then name=value pairs that each end with a
// semicolon, on one line) has it replaced by a constant. It is the only text of a client that this
// server alters.
//
// False, and nothing changed, for any other text.
bool PinBillingLine(std::string* system_prompt);
// The same for the first of `messages` (OpenAI's shape), when that is the system's.
bool PinBillingLineOf(Json* messages);

// For the explanation of what was reused.
inline constexpr char kBillingLineNote[] =
    "the client's billing line (x-anthropic-billing-header) was replaced by a constant";

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_BILLING_LINE_H_
