#ifndef HOLDFAST_SERVER_LLAMA_API_H_
#define HOLDFAST_SERVER_LLAMA_API_H_

// Routes that clients of llama.cpp's server use, and clear words for what this server does not do.
// Fields: docs/http_api.md.

#include <memory>
#include <string_view>
#include <utility>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// GET /props
HttpReply HandleProps(const std::shared_ptr<const ModelService>& model, const HttpRequest& request);
// POST /tokenize {"content", "add_special", "parse_special", "with_pieces"}
HttpReply HandleTokenize(const std::shared_ptr<const ModelService>& model,
                         const HttpRequest& request);
// POST /detokenize {"tokens"}
HttpReply HandleDetokenize(const std::shared_ptr<const ModelService>& model,
                           const HttpRequest& request);
// POST /apply-template: a chat completion's body; its prompt as text.
HttpReply HandleApplyTemplate(const std::shared_ptr<const ModelService>& model,
                              const HttpRequest& request);

// Paths that are asked of servers like this one, and what there is instead.
inline constexpr std::pair<const char*, const char*> kUnsupportedPaths[] = {
    {"/v1/embeddings", "embeddings: a qwen4exp model predicts tokens and gives none"},
    {"/embeddings", "embeddings: a qwen4exp model predicts tokens and gives none"},
    {"/embedding", "embeddings: a qwen4exp model predicts tokens and gives none"},
    {"/v1/rerank", "reranking: a qwen4exp model predicts tokens and gives no scores"},
    {"/rerank", "reranking: a qwen4exp model predicts tokens and gives no scores"},
    {"/completion", "llama.cpp's own completion format: use POST /v1/completions"},
    {"/infill", "filling in the middle: the model was not trained for it"},
    {"/lora-adapters", "LoRA adapters"},
    {"/v1/moderations", "moderation"},
    {"/v1/audio/speech", "audio: the model reads and writes text only"},
    {"/v1/audio/transcriptions", "audio: the model reads and writes text only"},
    {"/v1/audio/translations", "audio: the model reads and writes text only"},
    {"/v1/images/generations", "images: the model reads and writes text only"},
    {"/v1/images/edits", "images: the model reads and writes text only"},
    {"/v1/files", "files"},
    {"/v1/batches", "batches: requests sent at once are decoded together"},
    {"/v1/assistants", "assistants: use POST /v1/responses"},
    {"/v1/threads", "threads: use POST /v1/responses"},
    {"/v1/fine_tuning/jobs", "fine-tuning"},
};
HttpReply Unsupported(std::string_view what, const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_LLAMA_API_H_
