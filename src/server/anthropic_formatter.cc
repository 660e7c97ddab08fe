#include "server/anthropic_formatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash128.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/openai_common.h"
#include "server/request_id.h"

namespace holdfast {
namespace {

enum class Block { kNone, kThinking, kText, kToolUse };

// Prompt tokens in three parts that add up to the prompt: reused, read up to the last mark of the
// client (these are what it has asked to be kept), read behind it.
Json InputUsage(const AnthropicReplyHead& head, int64_t n_reused) {
  const int64_t n_created = std::max<int64_t>(head.n_marked - n_reused, 0);
  Json usage;
  usage["input_tokens"] = head.n_prompt - n_reused - n_created;
  usage["cache_creation_input_tokens"] = n_created;
  usage["cache_read_input_tokens"] = n_reused;
  return usage;
}

Json Usage(const AnthropicReplyHead& head, const FinishedReply& finished) {
  Json usage = InputUsage(head, finished.result.reuse.tokens_reused);
  usage["output_tokens"] = finished.result.timings.n_predicted;
  return usage;
}

std::string_view StopReason(const FinishedReply& finished) {
  switch (finished.result.reason) {
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContextFull:
      return "model_context_window_exceeded";
    default:
      break;
  }
  if (!finished.stop_matched.empty()) return "stop_sequence";
  return finished.has_tool_calls ? "tool_use" : "end_turn";
}

Json StopSequence(const FinishedReply& finished) {
  return finished.stop_matched.empty() ? Json() : Json(finished.stop_matched);
}

Json MessageHead(const std::string& id, const AnthropicReplyHead& head) {
  Json message;
  message["id"] = id;
  message["type"] = "message";
  message["role"] = "assistant";
  message["model"] = head.model_id;
  message["content"] = Json::array();
  message["stop_reason"] = Json();
  message["stop_sequence"] = Json();
  return message;
}

// Thinking must carry a signature; ours only names the text. Nothing depends on it.
std::string Signature(const std::string& thinking) {
  return "holdfast-" + Hash128Of(std::as_bytes(std::span(thinking))).Hex();
}

Json NewBlock(Block kind, const ReplyEvent& event) {
  switch (kind) {
    case Block::kThinking:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case Block::kText:
      return {{"type", "text"}, {"text", ""}};
    case Block::kToolUse:
      return {
          {"type", "tool_use"}, {"id", event.id}, {"name", event.name}, {"input", Json::object()}};
    case Block::kNone:
      break;
  }
  return {};
}

Block BlockOf(ReplyEvent::Kind kind) {
  switch (kind) {
    case ReplyEvent::Kind::kReasoning:
      return Block::kThinking;
    case ReplyEvent::Kind::kContent:
      return Block::kText;
    default:
      return Block::kToolUse;
  }
}

class StreamFormatter : public ReplyFormatter {
 public:
  explicit StreamFormatter(AnthropicReplyHead head) : head_(std::move(head)) {}

  bool streaming() const override { return true; }
  // The first event can only be message_start, which waits for what is reused.
  std::string Begin() override { return ": connected\n\n"; }

  std::string Add(const GenerationEvent& event) override {
    std::string out;
    if (const auto* progress = std::get_if<PromptProgress>(&event)) {
      Start(progress->reused, &out);
    } else if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      Start(0, &out);
      AddReply(*reply, &out);
    } else if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      End(*finished, &out);
    }
    return out;
  }

  // The longest queue is no reason to keep a client without its first event.
  std::string Heartbeat() override {
    std::string out;
    if (!started_) {
      Start(0, &out);
    } else {
      Ping(&out);
    }
    return out;
  }

 private:
  static void Event(const char* type, Json body, std::string* out) {
    Json event;
    event["type"] = type;
    event.update(body);
    *out += fmt::format("event: {}\n", type);
    *out += ServerSentEvent(ToText(event));
  }
  static void Ping(std::string* out) { Event("ping", Json::object(), out); }

  void Start(int64_t n_reused, std::string* out) {
    if (std::exchange(started_, true)) return;
    Json message = MessageHead(id_, head_);
    message["usage"] = InputUsage(head_, n_reused);
    message["usage"]["output_tokens"] = 0;
    Event("message_start", {{"message", std::move(message)}}, out);
    Ping(out);
  }

  void Delta(Json delta, std::string* out) {
    Event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}}, out);
  }

  void Close(std::string* out) {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking) {
      Delta({{"type", "signature_delta"}, {"signature", Signature(thinking_)}}, out);
      thinking_.clear();
    }
    Event("content_block_stop", {{"index", index_}}, out);
    block_ = Block::kNone;
  }

  void Open(Block kind, const ReplyEvent& event, std::string* out) {
    if (block_ == kind && event.kind != ReplyEvent::Kind::kToolCallBegin) return;
    Close(out);
    block_ = kind;
    ++index_;
    Event("content_block_start", {{"index", index_}, {"content_block", NewBlock(kind, event)}},
          out);
  }

  void AddReply(const ReplyEvent& reply, std::string* out) {
    if (reply.kind == ReplyEvent::Kind::kToolCallEnd) return Close(out);
    Open(BlockOf(reply.kind), reply, out);
    switch (reply.kind) {
      case ReplyEvent::Kind::kReasoning:
        thinking_ += reply.text;
        return Delta({{"type", "thinking_delta"}, {"thinking", reply.text}}, out);
      case ReplyEvent::Kind::kContent:
        return Delta({{"type", "text_delta"}, {"text", reply.text}}, out);
      case ReplyEvent::Kind::kToolCallArguments:
        return Delta({{"type", "input_json_delta"}, {"partial_json", reply.text}}, out);
      default:
        return;
    }
  }

  void End(const FinishedReply& finished, std::string* out) {
    if (const Status status = ReplyStatus(finished); !status.ok()) {
      *out += "event: error\n";
      *out += ServerSentEvent(AnthropicErrorBody({.status = status}, head_.request_id));
      return;
    }
    Start(finished.result.reuse.tokens_reused, out);
    Close(out);
    Json delta;
    delta["delta"] = {{"stop_reason", StopReason(finished)},
                      {"stop_sequence", StopSequence(finished)}};
    delta["usage"] = Usage(head_, finished);
    AddSummary(finished, /*with_usage=*/false, &delta);
    Event("message_delta", std::move(delta), out);
    Event("message_stop", Json::object(), out);
  }

  const AnthropicReplyHead head_;
  const std::string id_ = MakeId("msg_");
  bool started_ = false;
  Block block_ = Block::kNone;
  int index_ = -1;        // of the block that is open, or was last
  std::string thinking_;  // of the block that is open
};

class ObjectFormatter : public ReplyFormatter {
 public:
  explicit ObjectFormatter(AnthropicReplyHead head) : head_(std::move(head)) {}

  bool streaming() const override { return false; }

  std::string Add(const GenerationEvent& event) override {
    if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
      AddReply(*reply);
    } else if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      finished_ = *finished;
    }
    return {};
  }

  HttpResponse Whole() override {
    if (const Status status = ReplyStatus(finished_); !status.ok()) {
      return AnthropicErrorResponse({.status = status}, head_.request_id);
    }
    Close();
    Json message = MessageHead(MakeId("msg_"), head_);
    message["content"] = std::move(content_);
    message["stop_reason"] = StopReason(finished_);
    message["stop_sequence"] = StopSequence(finished_);
    message["usage"] = Usage(head_, finished_);
    AddSummary(finished_, /*with_usage=*/false, &message);
    HttpResponse response;
    response.body = ToText(message);
    return response;
  }

 private:
  void AddReply(const ReplyEvent& reply) {
    if (reply.kind == ReplyEvent::Kind::kToolCallEnd) return Close();
    const Block kind = BlockOf(reply.kind);
    if (block_ != kind || reply.kind == ReplyEvent::Kind::kToolCallBegin) {
      Close();
      block_ = kind;
      content_.push_back(NewBlock(kind, reply));
    }
    text_ += reply.text;
  }

  void Close() {
    if (block_ == Block::kNone) return;
    Json& block = content_.back();
    if (block_ == Block::kToolUse) {
      Result<Json> input = ParseJson(text_);  // well-formed: ReplyParser closes what is open
      if (input.ok() && input->is_object()) block["input"] = *std::move(input);
    } else {
      block[block_ == Block::kThinking ? "thinking" : "text"] = text_;
      if (block_ == Block::kThinking) block["signature"] = Signature(text_);
    }
    text_.clear();
    block_ = Block::kNone;
  }

  const AnthropicReplyHead head_;
  Json content_ = Json::array();
  Block block_ = Block::kNone;  // the last of content_, while it grows
  std::string text_;            // of it
  FinishedReply finished_;
};

}  // namespace

std::unique_ptr<ReplyFormatter> MakeAnthropicFormatter(AnthropicReplyHead head, bool stream) {
  if (stream) return std::make_unique<StreamFormatter>(std::move(head));
  return std::make_unique<ObjectFormatter>(std::move(head));
}

}  // namespace holdfast
