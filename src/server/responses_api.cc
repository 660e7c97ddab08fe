#include "server/responses_api.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "server/chat_generation.h"
#include "server/conversation_name.h"
#include "server/generation_response.h"
#include "server/openai_common.h"
#include "server/request_id.h"
#include "server/responses_formatter.h"
#include "server/responses_request.h"

namespace holdfast {
namespace {

constexpr std::string_view kResponses = "/v1/responses/";

ApiError NoSuchResponse(const std::string& id, int http_status) {
  ApiError error;
  error.status = NotFoundError(fmt::format(
      "response {} is not kept: it was made with store false, too long ago, or not here",
      ShortText(Json(id))));
  error.code = "response_not_found";
  error.http_status = http_status;
  return error;
}

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = ToText(body);
  return response;
}

ResponsesReplyHead HeadOf(const ModelService& model, ResponsesRequest* request) {
  ResponsesReplyHead head;
  head.id = MakeId("resp_");
  head.model_id = model.model_id;
  head.created_s = UnixTime();
  head.echo = std::move(request->echo);
  head.tools = std::move(request->tools);
  head.with_encrypted_reasoning = request->with_encrypted_reasoning;
  head.reasoning_as_summary = request->reasoning_as_summary;
  return head;
}

}  // namespace

struct ResponsesApi::Parsed {
  ResponsesRequest request;
  std::optional<PreparedChat> prepared;
};

ApiError ResponsesApi::Parse(const ModelService& model, const HttpRequest& http, Parsed* parsed) {
  const Result<Json> body = ParseJson(http.body);
  if (!body.ok()) return {.status = body.status()};
  std::shared_ptr<const StoredResponse> previous;
  if (body->is_object() && body->contains("previous_response_id") &&
      (*body)["previous_response_id"].is_string()) {
    const std::string id = (*body)["previous_response_id"];
    previous = store_->Find(id);
    if (previous == nullptr) {
      ApiError error = NoSuchResponse(id, 400);
      error.param = "previous_response_id";
      error.code = "previous_response_not_found";
      return error;
    }
  }
  const ResponsesHistory* earlier = previous == nullptr ? nullptr : &previous->history;
  ApiError error = ParseResponsesRequest(model, *body, earlier, &parsed->request);
  if (!error.status.ok()) return error;
  Result<PreparedChat> prepared = PrepareChat(model, parsed->request.chat);
  if (!prepared.ok()) return {.status = prepared.status(), .param = "input"};
  parsed->prepared = *std::move(prepared);
  return {};
}

HttpReply ResponsesApi::Create(const Service& model, const HttpRequest& http) {
  Parsed parsed;
  const ApiError error = Parse(*model, http, &parsed);
  if (!error.status.ok()) return OpenAiErrorResponse(error);
  ResponsesRequest& request = parsed.request;
  ResponsesReplyHead head = HeadOf(*model, &request);
  if (request.store) {
    head.on_response = [store = store_, id = head.id,
                        messages = std::move(request.conversation)](const Json& response) {
      store->Add(id, {response, {messages, response["output"]}});
    };
  }
  parsed.prepared->request.conversation = ConversationName(http);
  ChatReplyOptions options;
  options.single_tool_call = request.single_tool_call;
  Result<std::shared_ptr<Generation>> generation =
      StartChat(model, request.chat, *std::move(parsed.prepared), std::move(options));
  if (generation.ok()) {
    return HttpReply(std::make_unique<GenerationResponse>(
        *generation, MakeResponsesFormatter(std::move(head), request.stream)));
  }
  const ApiError refused = SubmitError(generation.status());
  // Clients that stream look for this in the stream, and shorten the conversation.
  const bool too_long = generation.status().code() == StatusCode::kOutOfRange;
  if (!too_long || !request.stream) return OpenAiErrorResponse(refused);
  HttpResponse response = EventStreamHead();
  response.body = FailedResponsesStream(std::move(head), refused);
  return response;
}

HttpReply ResponsesApi::CountInput(const Service& model, const HttpRequest& http) {
  Parsed parsed;
  const ApiError error = Parse(*model, http, &parsed);
  if (!error.status.ok()) return OpenAiErrorResponse(error);
  Json body;
  body["object"] = "response.input_tokens";
  body["input_tokens"] = parsed.prepared->request.prompt.size();
  return JsonResponse(body);
}

HttpReply ResponsesApi::Get(const HttpRequest& http) {
  const std::string id = http.path.substr(kResponses.size());
  const auto found = store_->Find(id);
  if (found == nullptr) return OpenAiErrorResponse(NoSuchResponse(id, 404));
  return JsonResponse(found->response);
}

HttpReply ResponsesApi::Delete(const HttpRequest& http) {
  const std::string id = http.path.substr(kResponses.size());
  if (!store_->Remove(id)) return OpenAiErrorResponse(NoSuchResponse(id, 404));
  Json body;
  body["id"] = id;
  body["object"] = "response";
  body["deleted"] = true;
  return JsonResponse(body);
}

}  // namespace holdfast
