#ifndef HOLDFAST_SERVER_OPENAI_CHAT_H_
#define HOLDFAST_SERVER_OPENAI_CHAT_H_

#include <memory>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// POST /v1/chat/completions. Fields: docs/http_api.md.
HttpReply HandleChatCompletions(const std::shared_ptr<const ModelService>& model,
                                const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_CHAT_H_
