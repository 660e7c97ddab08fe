#ifndef HOLDFAST_SERVER_ANTHROPIC_API_H_
#define HOLDFAST_SERVER_ANTHROPIC_API_H_

#include <memory>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// POST /v1/messages (with or without ?beta=true). Fields and what is refused: docs/http_api.md.
HttpReply HandleMessages(const std::shared_ptr<const ModelService>& model,
                         const HttpRequest& request);
// POST /v1/messages/count_tokens: {"input_tokens": n} of the prompt that HandleMessages would read.
HttpReply HandleCountTokens(const std::shared_ptr<const ModelService>& model,
                            const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_ANTHROPIC_API_H_
