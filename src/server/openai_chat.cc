#include "server/openai_chat.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "server/billing_line.h"
#include "server/chat_generation.h"
#include "server/conversation_name.h"
#include "server/generation_response.h"
#include "server/openai_common.h"
#include "server/openai_messages.h"
#include "server/request_id.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

struct ParsedChat {
  ChatRequest chat;
  StreamOptions stream;
  bool single_tool_call = false;  // parallel_tool_calls: false
};

// What the answer's objects begin with.
struct ReplyHead {
  std::string id = MakeId("chatcmpl-");
  int64_t created_s = UnixTime();
  std::string model_id;
};

void ReadLogprobs(FieldReader& in, GenerationOptions* options) {
  bool logprobs = false;
  int n_top = 0;
  in.Read("logprobs", &logprobs);
  in.Read("top_logprobs", &n_top, 0, 20);
  if (in.ok() && n_top > 0 && !logprobs) {
    in.Fail("top_logprobs", InvalidArgumentError("top_logprobs needs logprobs to be true"));
  }
  if (logprobs) options->n_top_logprobs = n_top;
}

void RefuseUnsupported(FieldReader& in) {
  static constexpr FieldReader::Unsupported kFields[] = {
      {"functions", "tools is what they are called now"},
      {"function_call", "tool_choice is what it is called now"},
      {"audio", "this model writes text only"},
      {"web_search_options", "this server searches nothing"},
      {"moderation", "this server moderates nothing"}};
  in.RefuseUnsupported(kFields);
  std::vector<std::string> modalities;
  in.Read("modalities", &modalities);
  for (const std::string& modality : modalities) {
    if (modality == "text") continue;
    in.Fail("modalities", UnimplementedError(fmt::format(
                              "modalities holds \"{}\", this model writes text only", modality)));
  }
}

ApiError ParseChat(const ModelService& model, const Json& body, ParsedChat* parsed) {
  ChatRequest& chat = parsed->chat;
  chat.options.sampling = model.default_sampling;
  FieldReader in(body);
  ReadMessages(in, &chat.input, &chat.cache_marks);
  if (model.pin_billing_line && PinBillingLineOf(&chat.input.messages)) {
    chat.note = kBillingLineNote;
  }
  ToolChoice tool_choice;
  ReadTools(in, &chat.input, &tool_choice);
  ReadThinking(in, &chat.input, &chat.options.thinking);
  ReadGenerationOptions(in, model.generator->vocab_size(), &chat.options);
  ReadLogprobs(in, &chat.options);
  if (const Json* format = in.Find("response_format")) {
    ReadFormat(in, *format, "response_format", "json_schema.schema", &chat.format);
  }
  in.Read("parallel_tool_calls", &tool_choice.parallel);
  parsed->single_tool_call = !tool_choice.parallel;
  ReadStreamOptions(in, &parsed->stream);
  RefuseUnsupported(in);
  const auto where_of = [](size_t i) { return fmt::format("tools[{}].function.parameters", i); };
  SetGrammar(in, model, tool_choice, where_of, &chat);
  return in.error();
}

Json LogprobJson(const TokenDetail::Choice& choice) {
  Json json;
  json["token"] = RepairUtf8(choice.bytes);
  json["logprob"] = choice.logprob;
  Json& bytes = json["bytes"] = Json::array();
  for (const char byte : choice.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return json;
}

Json LogprobJson(const TokenDetail& detail) {
  Json json = LogprobJson(detail.chosen);
  Json& top = json["top_logprobs"] = Json::array();
  for (const TokenDetail::Choice& choice : detail.top) top.push_back(LogprobJson(choice));
  return json;
}

// chat.completion.chunk events.
class ChatStreamFormatter : public ReplyFormatter {
 public:
  ChatStreamFormatter(ReplyHead head, const StreamOptions& options)
      : head_(std::move(head)), options_(options) {}

  bool streaming() const override { return true; }

  std::string Begin() override {
    Json delta;
    delta["role"] = "assistant";
    delta["content"] = "";
    return Chunk(std::move(delta), Json());
  }

  std::string Add(const GenerationEvent& event) override {
    if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      Json delta = Delta(*reply);
      return delta.is_null() ? std::string() : Chunk(std::move(delta), Json());
    }
    if (const auto* detail = std::get_if<TokenDetail>(&event)) {
      logprobs_.push_back(LogprobJson(*detail));
      return {};
    }
    if (const auto* progress = std::get_if<PromptProgress>(&event)) {
      Json chunk = ObjectHead(head_.id, "chat.completion.chunk", head_.created_s, head_.model_id);
      chunk["choices"] = Json::array();
      chunk["prompt_progress"] = PromptProgressJson(*progress);
      return ServerSentEvent(ToText(chunk));
    }
    return End(std::get<FinishedReply>(event));
  }

  std::string Heartbeat() override { return ": still here\n\n"; }

 private:
  static Json Delta(const ReplyEvent& reply) {
    Json delta;
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        delta["reasoning_content"] = reply.text;
        break;
      case ReplyEvent::Kind::kContent:
        delta["content"] = reply.text;
        break;
      case ReplyEvent::Kind::kToolCallBegin: {
        Json call;
        call["index"] = reply.index;
        call["id"] = reply.id;
        call["type"] = "function";
        call["function"] = {{"name", reply.name}, {"arguments", ""}};
        delta["tool_calls"] = Json::array({std::move(call)});
        break;
      }
      case ReplyEvent::Kind::kToolCallArguments: {
        Json call;
        call["index"] = reply.index;
        call["function"] = {{"arguments", reply.text}};
        delta["tool_calls"] = Json::array({std::move(call)});
        break;
      }
      case ReplyEvent::Kind::kToolCallEnd:
        break;
    }
    return delta;
  }

  Json ChunkJson(Json delta, Json finish_reason) {
    Json chunk = ObjectHead(head_.id, "chat.completion.chunk", head_.created_s, head_.model_id);
    Json choice;
    choice["index"] = 0;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = Json();
    if (!logprobs_.empty()) {
      choice["logprobs"] = {{"content", std::exchange(logprobs_, Json::array())}};
    }
    choice["finish_reason"] = std::move(finish_reason);
    chunk["choices"] = Json::array({std::move(choice)});
    return chunk;
  }

  std::string Chunk(Json delta, Json finish_reason) {
    return ServerSentEvent(ToText(ChunkJson(std::move(delta), std::move(finish_reason))));
  }

  std::string End(const FinishedReply& finished) {
    std::string out;
    if (const Status status = ReplyStatus(finished); !status.ok()) {
      out = ServerSentEvent(OpenAiErrorBody({.status = status}));
    } else {
      Json last = ChunkJson(Json::object(), FinishReasonText(finished));
      AddSummary(finished, /*with_usage=*/false, &last);
      out = ServerSentEvent(ToText(last));
      if (options_.include_usage) {
        Json usage = ObjectHead(head_.id, "chat.completion.chunk", head_.created_s, head_.model_id);
        usage["choices"] = Json::array();
        AddSummary(finished, /*with_usage=*/true, &usage);
        out += ServerSentEvent(ToText(usage));
      }
    }
    return out + ServerSentEvent("[DONE]");
  }

  const ReplyHead head_;
  const StreamOptions options_;
  Json logprobs_ = Json::array();  // of tokens whose text has not been sent yet
};

// One chat.completion object.
class ChatObjectFormatter : public ReplyFormatter {
 public:
  ChatObjectFormatter(ReplyHead head, bool with_logprobs)
      : head_(std::move(head)), with_logprobs_(with_logprobs) {}

  bool streaming() const override { return false; }

  std::string Add(const GenerationEvent& event) override {
    if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      AddReply(*reply);
    } else if (const auto* detail = std::get_if<TokenDetail>(&event)) {
      logprobs_.push_back(LogprobJson(*detail));
    } else if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      finished_ = *finished;
    }
    return {};
  }

  HttpResponse Whole() override {
    if (const Status status = ReplyStatus(finished_); !status.ok()) {
      return OpenAiErrorResponse({.status = status});
    }
    Json object = ObjectHead(head_.id, "chat.completion", head_.created_s, head_.model_id);
    Json message;
    message["role"] = "assistant";
    message["content"] = content_.empty() && !tool_calls_.empty() ? Json() : Json(content_);
    if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
    if (!tool_calls_.empty()) message["tool_calls"] = tool_calls_;
    Json choice;
    choice["index"] = 0;
    choice["message"] = std::move(message);
    choice["logprobs"] = with_logprobs_ ? Json{{"content", logprobs_}} : Json();
    choice["finish_reason"] = FinishReasonText(finished_);
    object["choices"] = Json::array({std::move(choice)});
    AddSummary(finished_, /*with_usage=*/true, &object);
    HttpResponse response;
    response.body = ToText(object);
    return response;
  }

 private:
  void AddReply(const ReplyEvent& reply) {
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        reasoning_ += reply.text;
        break;
      case ReplyEvent::Kind::kContent:
        content_ += reply.text;
        break;
      case ReplyEvent::Kind::kToolCallBegin: {
        Json call;
        call["id"] = reply.id;
        call["type"] = "function";
        call["function"] = {{"name", reply.name}, {"arguments", ""}};
        tool_calls_.push_back(std::move(call));
        break;
      }
      case ReplyEvent::Kind::kToolCallArguments:
        tool_calls_.back()["function"]["arguments"].get_ref<std::string&>() += reply.text;
        break;
      case ReplyEvent::Kind::kToolCallEnd:
        break;
    }
  }

  const ReplyHead head_;
  const bool with_logprobs_;
  std::string reasoning_, content_;
  Json tool_calls_ = Json::array(), logprobs_ = Json::array();
  FinishedReply finished_;
};

}  // namespace

std::optional<ChatRequest> ParseOpenAiChat(const ModelService& model, const HttpRequest& request,
                                           ApiError* error) {
  const Result<Json> body = ParseJson(request.body);
  ParsedChat parsed;
  *error = body.ok() ? ParseChat(model, *body, &parsed) : ApiError{.status = body.status()};
  if (!error->status.ok()) return std::nullopt;
  return std::move(parsed.chat);
}

std::optional<PreparedChat> PrepareOpenAiChat(const ModelService& model, const HttpRequest& request,
                                              ApiError* error) {
  const std::optional<ChatRequest> chat = ParseOpenAiChat(model, request, error);
  if (!chat) return std::nullopt;
  Result<PreparedChat> prepared = PrepareChat(model, *chat);
  if (prepared.ok()) return *std::move(prepared);
  *error = {.status = prepared.status(), .param = "messages"};
  return std::nullopt;
}

HttpReply HandleChatCompletions(const std::shared_ptr<const ModelService>& model,
                                const HttpRequest& request) {
  const Result<Json> body = ParseJson(request.body);
  if (!body.ok()) return OpenAiErrorResponse({.status = body.status()});
  ParsedChat parsed;
  if (const ApiError error = ParseChat(*model, *body, &parsed); !error.status.ok()) {
    return OpenAiErrorResponse(error);
  }
  Result<PreparedChat> prepared = PrepareChat(*model, parsed.chat);
  if (!prepared.ok()) {
    return OpenAiErrorResponse({.status = prepared.status(), .param = "messages"});
  }
  prepared->request.conversation = ConversationName(request);
  ChatReplyOptions options;
  options.progress = parsed.stream.stream && parsed.stream.progress;
  options.single_tool_call = parsed.single_tool_call;
  Result<std::shared_ptr<Generation>> generation =
      StartChat(model, parsed.chat, *std::move(prepared), std::move(options));
  if (!generation.ok()) return OpenAiErrorResponse(SubmitError(generation.status()));

  ReplyHead head;
  head.model_id = model->model_id;
  std::unique_ptr<ReplyFormatter> formatter;
  if (parsed.stream.stream) {
    formatter = std::make_unique<ChatStreamFormatter>(std::move(head), parsed.stream);
  } else {
    formatter = std::make_unique<ChatObjectFormatter>(std::move(head),
                                                      parsed.chat.options.n_top_logprobs >= 0);
  }
  return HttpReply(std::make_unique<GenerationResponse>(*generation, std::move(formatter)));
}

}  // namespace holdfast
