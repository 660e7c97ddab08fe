#ifndef HOLDFAST_SERVER_OPENAI_COMMON_H_
#define HOLDFAST_SERVER_OPENAI_COMMON_H_

// What /v1/chat/completions and /v1/completions share.

#include <string>
#include <string_view>

#include "server/chat_request.h"
#include "server/field_reader.h"
#include "server/generation.h"
#include "server/json.h"

namespace holdfast {

// temperature, top_k, penalties, stop, seed and the like, in the spellings of OpenAI, llama.cpp and
// vLLM (docs/http_api.md). `options` holds the defaults before. Sets `in`'s error.
void ReadGenerationOptions(FieldReader& in, int64_t vocab_size, GenerationOptions* options);

// Whether and how to stream.
struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool progress = false;  // llama.cpp's return_progress
};
void ReadStreamOptions(FieldReader& in, StreamOptions* options);

// "stop", "length" or "tool_calls". Not for kCancelled and kError.
std::string_view FinishReasonText(const FinishedReply& finished);
// OK, or why the reply is not one.
Status ReplyStatus(const FinishedReply& finished);

// How a client is told that the engine did not take its request.
ApiError SubmitError(Status status);

Json UsageJson(const FinishedReply& finished);
// llama.cpp's field names.
Json TimingsJson(const GenerateResult& result);
// Where the prompt's state came from and why not more of it.
Json ReuseJson(const ReuseInfo& reuse);
// {"total","cache","processed"} of llama.cpp's prompt_progress.
Json PromptProgressJson(const PromptProgress& progress);

// The fields every response object and chunk begins with.
Json ObjectHead(std::string_view id, std::string_view object, int64_t created_s,
                std::string_view model_id);
// Adds usage, seed, timings and reuse to the last object of a reply.
void AddSummary(const FinishedReply& finished, bool with_usage, Json* object);

// Seconds since 1970.
int64_t UnixTime();

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPENAI_COMMON_H_
