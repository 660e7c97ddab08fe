#ifndef HOLDFAST_SERVER_ANTHROPIC_REQUEST_H_
#define HOLDFAST_SERVER_ANTHROPIC_REQUEST_H_

#include "server/api_error.h"
#include "server/chat_request.h"
#include "server/json.h"

namespace holdfast {

// The body of POST /v1/messages and of /v1/messages/count_tokens.
struct AnthropicRequest {
  ChatRequest chat;
  bool stream = false;
  bool marks_system = false;      // cache_control on a system block or a tool
  bool single_tool_call = false;  // tool_choice.disable_parallel_tool_use
};

enum class AnthropicCall { kMessages, kCountTokens };

// Fields of the API are checked; unknown ones are ignored. Blocks are turned into messages of
// OpenAI's shape: text blocks are joined (a line break between those of a client, nothing between
// those of a reply), tool results become messages of role `tool`.
ApiError ParseAnthropicRequest(const ModelService& model, AnthropicCall call, const Json& body,
                               AnthropicRequest* request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_ANTHROPIC_REQUEST_H_
