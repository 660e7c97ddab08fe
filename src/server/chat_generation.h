#ifndef HOLDFAST_SERVER_CHAT_GENERATION_H_
#define HOLDFAST_SERVER_CHAT_GENERATION_H_

#include <functional>
#include <memory>
#include <string>

#include "server/chat_request.h"
#include "server/generation.h"

namespace holdfast {

// What an API wants of a chat reply besides the request itself.
struct ChatReplyOptions {
  bool progress = false;                      // report PromptProgress
  bool single_tool_call = false;              // the reply ends with its first tool call
  std::function<std::string()> make_call_id;  // not set: OpenAI's "call_..."
};

// Puts `prepared` (made of `chat`) into the engine. The reply is remembered, so that a history that
// brings it back gets its tokens. Errors: those of Generator::Submit.
Result<std::shared_ptr<Generation>> StartChat(const std::shared_ptr<const ModelService>& model,
                                              const ChatRequest& chat, PreparedChat prepared,
                                              ChatReplyOptions options);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_CHAT_GENERATION_H_
