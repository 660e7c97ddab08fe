#ifndef HOLDFAST_SERVER_OPENAI_COMPLETIONS_H_
#define HOLDFAST_SERVER_OPENAI_COMPLETIONS_H_

#include <memory>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// POST /v1/completions: a raw prompt, no template. Added tokens in a text prompt are recognised, as
// in llama.cpp: whoever calls this writes the whole prompt. Fields: docs/http_api.md.
HttpReply HandleCompletions(const std::shared_ptr<const ModelService>& model,
                            const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_COMPLETIONS_H_
