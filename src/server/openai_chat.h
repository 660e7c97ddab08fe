#ifndef HOLDFAST_SERVER_OPENAI_CHAT_H_
#define HOLDFAST_SERVER_OPENAI_CHAT_H_

#include <memory>
#include <optional>

#include "server/api_error.h"
#include "server/chat_request.h"
#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// POST /v1/chat/completions. Fields: docs/http_api.md.
HttpReply HandleChatCompletions(const std::shared_ptr<const ModelService>& model,
                                const HttpRequest& request);

// The same body as far as its messages and options. Nothing when it is refused; `error` says why.
std::optional<ChatRequest> ParseOpenAiChat(const ModelService& model, const HttpRequest& request,
                                           ApiError* error);
// The same body as far as its prompt. Nothing when it is refused; `error` says why.
std::optional<PreparedChat> PrepareOpenAiChat(const ModelService& model, const HttpRequest& request,
                                              ApiError* error);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_CHAT_H_
