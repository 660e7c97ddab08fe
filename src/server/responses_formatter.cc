#include "server/responses_formatter.h"

#include <fmt/format.h>

#include <utility>

#include "server/api_error.h"
#include "server/json.h"
#include "server/openai_common.h"
#include "server/request_id.h"

namespace holdfast {
namespace {

Json TextPart(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json Usage(const FinishedReply& finished) {
  const GenerateTimings& timings = finished.result.timings;
  Json usage;
  usage["input_tokens"] = timings.n_prompt;
  usage["input_tokens_details"] = {{"cached_tokens", finished.result.reuse.tokens_reused}};
  usage["output_tokens"] = timings.n_predicted;
  usage["output_tokens_details"] = {{"reasoning_tokens", finished.n_reasoning_tokens}};
  usage["total_tokens"] = timings.n_prompt + timings.n_predicted;
  return usage;
}

// Builds the response item by item; when streaming, every step is an event.
class ResponsesFormatter : public ReplyFormatter {
 public:
  ResponsesFormatter(ResponsesReplyHead head, bool stream)
      : head_(std::move(head)), stream_(stream) {
    response_["id"] = head_.id;
    response_["object"] = "response";
    response_["created_at"] = head_.created_s;
    response_["status"] = "in_progress";
    response_["background"] = false;
    response_["error"] = Json();
    response_["incomplete_details"] = Json();
    response_["model"] = head_.model_id;
    response_["output"] = Json::array();
    response_.update(std::exchange(head_.echo, Json()));
    response_["usage"] = Json();
  }

  bool streaming() const override { return stream_; }

  std::string Begin() override {
    Emit("response.created", {{"response", response_}});
    Emit("response.in_progress", {{"response", response_}});
    return std::exchange(out_, {});
  }
  std::string Heartbeat() override {
    Emit("response.in_progress", {{"response", response_}});
    return std::exchange(out_, {});
  }

  std::string Add(const GenerationEvent& event) override {
    if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      AddReply(*reply);
    } else if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      End(*finished);
    }
    return std::exchange(out_, {});
  }

  HttpResponse Whole() override {
    if (!failure_.ok()) return OpenAiErrorResponse({.status = failure_});
    HttpResponse response;
    response.body = ToText(response_);
    return response;
  }

  std::string Fail(const ApiError& error) {
    const Json shape = Json::parse(OpenAiErrorBody(error))["error"];
    response_["status"] = "failed";
    response_["error"] = {{"code", error.code.empty() ? shape["type"] : Json(error.code)},
                          {"message", error.status.message()}};
    Emit("response.failed", {{"response", response_}});
    return std::exchange(out_, {});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  void Emit(const char* type, Json body) {
    if (!stream_) return;
    Json event;
    event["type"] = type;
    event["sequence_number"] = n_events_++;
    event.update(body);
    out_ += fmt::format("event: {}\n", type);
    out_ += ServerSentEvent(ToText(event));
  }
  // An event about the item that is open.
  void EmitOfItem(const char* type, Json body) {
    body["item_id"] = item_["id"];
    body["output_index"] = response_["output"].size();
    Emit(type, std::move(body));
  }

  void AddReply(const ReplyEvent& reply) {
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        OpenReasoning();
        text_ += reply.text;
        return EmitOfItem(head_.reasoning_as_summary ? "response.reasoning_summary_text.delta"
                                                     : "response.reasoning_text.delta",
                          {{PartIndex(), 0}, {"delta", reply.text}});
      case ReplyEvent::Kind::kContent:
        OpenMessage();
        text_ += reply.text;
        return EmitOfItem(
            "response.output_text.delta",
            {{"content_index", 0}, {"delta", reply.text}, {"logprobs", Json::array()}});
      case ReplyEvent::Kind::kToolCallBegin:
        return OpenCall(reply);
      case ReplyEvent::Kind::kToolCallArguments:
        text_ += reply.text;
        // The text of a custom tool is inside of these.
        if (!custom_) EmitOfItem("response.function_call_arguments.delta", {{"delta", reply.text}});
        return;
      case ReplyEvent::Kind::kToolCallEnd:
        return Close();
    }
  }

  void Open(Item kind, Json item) {
    Close();
    kind_ = kind;
    item_ = std::move(item);
    text_.clear();
    Emit("response.output_item.added",
         {{"output_index", response_["output"].size()}, {"item", item_}});
  }

  const char* PartIndex() const {
    return head_.reasoning_as_summary ? "summary_index" : "content_index";
  }

  void OpenReasoning() {
    if (kind_ == Item::kReasoning) return;
    Json item;
    item["id"] = MakeId("rs_");
    item["type"] = "reasoning";
    item["summary"] = Json::array();
    Open(Item::kReasoning, std::move(item));
    if (head_.reasoning_as_summary) {
      EmitOfItem("response.reasoning_summary_part.added",
                 {{"summary_index", 0}, {"part", {{"type", "summary_text"}, {"text", ""}}}});
    }
  }

  void CloseReasoning() {
    if (head_.reasoning_as_summary) {
      const Json part = {{"type", "summary_text"}, {"text", text_}};
      EmitOfItem("response.reasoning_summary_text.done", {{"summary_index", 0}, {"text", text_}});
      EmitOfItem("response.reasoning_summary_part.done", {{"summary_index", 0}, {"part", part}});
      item_["summary"].push_back(part);
    } else {
      EmitOfItem("response.reasoning_text.done", {{"content_index", 0}, {"text", text_}});
      item_["content"] = Json::array({{{"type", "reasoning_text"}, {"text", text_}}});
    }
    if (head_.with_encrypted_reasoning) item_["encrypted_content"] = SealReasoning(text_);
  }

  void OpenMessage() {
    if (kind_ == Item::kMessage) return;
    Json item;
    item["id"] = MakeId("msg_");
    item["type"] = "message";
    item["status"] = "in_progress";
    item["role"] = "assistant";
    item["content"] = Json::array();
    Open(Item::kMessage, std::move(item));
    EmitOfItem("response.content_part.added", {{"content_index", 0}, {"part", TextPart("")}});
  }

  void CloseMessage() {
    EmitOfItem("response.output_text.done",
               {{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}});
    EmitOfItem("response.content_part.done", {{"content_index", 0}, {"part", TextPart(text_)}});
    item_["content"].push_back(TextPart(text_));
  }

  void OpenCall(const ReplyEvent& reply) {
    const auto it = head_.tools.find(reply.name);
    ResponsesTool tool{.name = reply.name};
    if (it != head_.tools.end()) tool = it->second;
    custom_ = tool.custom;
    Json item;
    item["id"] = MakeId(custom_ ? "ctc_" : "fc_");
    item["type"] = custom_ ? "custom_tool_call" : "function_call";
    item["status"] = "in_progress";
    item["call_id"] = reply.id;
    item["name"] = tool.name;
    if (!tool.name_space.empty()) item["namespace"] = tool.name_space;
    item[custom_ ? "input" : "arguments"] = "";
    Open(Item::kCall, std::move(item));
  }

  void CloseCall() {
    if (!custom_) {
      EmitOfItem("response.function_call_arguments.done",
                 {{"name", item_["name"]}, {"arguments", text_}});
      item_["arguments"] = text_;
      return;
    }
    const Result<Json> arguments = ParseJson(text_);
    const bool has_input = arguments.ok() && arguments->is_object() &&
                           arguments->contains("input") && (*arguments)["input"].is_string();
    // A model that calls it like a function is taken at its word.
    const std::string input = has_input ? (*arguments)["input"].get<std::string>() : text_;
    EmitOfItem("response.custom_tool_call_input.delta", {{"delta", input}});
    EmitOfItem("response.custom_tool_call_input.done", {{"input", input}});
    item_["input"] = input;
  }

  void Close() {
    switch (kind_) {
      case Item::kNone:
        return;
      case Item::kReasoning:
        CloseReasoning();
        break;
      case Item::kMessage:
        CloseMessage();
        break;
      case Item::kCall:
        CloseCall();
        break;
    }
    if (item_.contains("status")) item_["status"] = cut_ ? "incomplete" : "completed";
    Emit("response.output_item.done",
         {{"output_index", response_["output"].size()}, {"item", item_}});
    response_["output"].push_back(std::move(item_));
    kind_ = Item::kNone;
  }

  void End(const FinishedReply& finished) {
    failure_ = ReplyStatus(finished);
    if (!failure_.ok()) {
      out_ += Fail({.status = failure_});
      return;
    }
    cut_ = FinishReasonText(finished) == "length";
    Close();
    response_["status"] = cut_ ? "incomplete" : "completed";
    response_["completed_at"] = UnixTime();
    if (cut_) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response_["usage"] = Usage(finished);
    AddSummary(finished, /*with_usage=*/false, &response_);
    if (head_.on_response) head_.on_response(response_);
    Emit(cut_ ? "response.incomplete" : "response.completed", {{"response", response_}});
  }

  ResponsesReplyHead head_;
  const bool stream_;
  Json response_;
  Item kind_ = Item::kNone;  // of item_, which is open
  Json item_;
  std::string text_;     // of the open item
  bool custom_ = false;  // the open call is of a custom tool
  bool cut_ = false;     // the reply ended before its end
  Status failure_;
  int n_events_ = 0;
  std::string out_;
};

}  // namespace

std::unique_ptr<ReplyFormatter> MakeResponsesFormatter(ResponsesReplyHead head, bool stream) {
  return std::make_unique<ResponsesFormatter>(std::move(head), stream);
}

std::string FailedResponsesStream(ResponsesReplyHead head, const ApiError& error) {
  ResponsesFormatter formatter(std::move(head), /*stream=*/true);
  std::string stream = formatter.Begin();
  stream += formatter.Fail(error);
  return stream;
}

}  // namespace holdfast
