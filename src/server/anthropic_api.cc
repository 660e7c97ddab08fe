#include "server/anthropic_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "server/anthropic_formatter.h"
#include "server/anthropic_request.h"
#include "server/chat_generation.h"
#include "server/conversation_name.h"
#include "server/generation_response.h"
#include "server/request_id.h"

namespace holdfast {
namespace {

// The body as a prompt, or an error.
std::optional<PreparedChat> Prepare(const ModelService& model, AnthropicCall call,
                                    const HttpRequest& request, AnthropicRequest* parsed,
                                    ApiError* error) {
  const Result<Json> body = ParseJson(request.body);
  if (!body.ok()) {
    *error = {.status = body.status()};
    return std::nullopt;
  }
  *error = ParseAnthropicRequest(model, call, *body, parsed);
  if (!error->status.ok()) return std::nullopt;
  Result<PreparedChat> prepared = PrepareChat(model, parsed->chat);
  if (prepared.ok()) return *std::move(prepared);
  *error = {.status = prepared.status(), .param = "messages"};
  return std::nullopt;
}

// Up to where the client has asked for the prompt to be kept.
int64_t MarkedTokens(const AnthropicRequest& parsed, const GenerateRequest& request) {
  int64_t end = 0;
  for (const CheckpointMark& mark : request.checkpoints) {
    const bool wanted = mark.kind == CheckpointKind::kMark ||
                        (mark.kind == CheckpointKind::kSystem && parsed.marks_system);
    if (wanted) end = std::max(end, mark.position);
  }
  return end;
}

// Clients look for these words and shorten the conversation when they find them.
ApiError TooLong(int64_t n_prompt, int64_t context_length) {
  ApiError error;
  error.status = InvalidArgumentError(
      fmt::format("prompt is too long: {} tokens > {} maximum", n_prompt, context_length - 1));
  return error;
}

}  // namespace

HttpReply HandleMessages(const std::shared_ptr<const ModelService>& model,
                         const HttpRequest& request) {
  AnthropicRequest parsed;
  ApiError error;
  std::optional<PreparedChat> prepared =
      Prepare(*model, AnthropicCall::kMessages, request, &parsed, &error);
  if (!prepared) return AnthropicErrorResponse(error, request.id);
  const int64_t n_prompt = static_cast<int64_t>(prepared->request.prompt.size());
  const int64_t context_length = model->generator->context_length();
  if (n_prompt >= context_length) {
    return AnthropicErrorResponse(TooLong(n_prompt, context_length), request.id);
  }
  AnthropicReplyHead head;
  head.model_id = model->model_id;
  head.request_id = request.id;
  head.n_prompt = n_prompt;
  head.n_marked = MarkedTokens(parsed, prepared->request);
  prepared->request.conversation = ConversationName(request);
  ChatReplyOptions options;
  options.progress = parsed.stream;
  options.single_tool_call = parsed.single_tool_call;
  options.make_call_id = [] { return MakeId("toolu_"); };
  Result<std::shared_ptr<Generation>> generation =
      StartChat(model, parsed.chat, *std::move(prepared), std::move(options));
  if (!generation.ok()) {
    ApiError refused{.status = generation.status()};
    refused.retry_after_s = 1;
    return AnthropicErrorResponse(refused, request.id);
  }
  return HttpReply(std::make_unique<GenerationResponse>(
      *generation, MakeAnthropicFormatter(std::move(head), parsed.stream)));
}

HttpReply HandleCountTokens(const std::shared_ptr<const ModelService>& model,
                            const HttpRequest& request) {
  AnthropicRequest parsed;
  ApiError error;
  const std::optional<PreparedChat> prepared =
      Prepare(*model, AnthropicCall::kCountTokens, request, &parsed, &error);
  if (!prepared) return AnthropicErrorResponse(error, request.id);
  Json body;
  body["input_tokens"] = prepared->request.prompt.size();
  HttpResponse response;
  response.body = ToText(body);
  return response;
}

}  // namespace holdfast
