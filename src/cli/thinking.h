#ifndef HOLDFAST_CLI_THINKING_H_
#define HOLDFAST_CLI_THINKING_H_

#include <string>

#include "base/status.h"
#include "token/chat_template.h"

namespace holdfast::cli {

// --think: "" leaves it to the template, "on" and "off" switch it, an effort (low, medium, high)
// switches it on with that effort. kInvalidArgument for other words.
Status SetThinking(const std::string& word, ChatTemplate::Input* input);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_THINKING_H_
