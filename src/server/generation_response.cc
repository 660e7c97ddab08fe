#include "server/generation_response.h"

#include <fmt/format.h>

#include <utility>

#include "engine/reuse.h"
#include "server/conversation_name.h"

namespace holdfast {

GenerationResponse::GenerationResponse(std::shared_ptr<Generation> generation,
                                       std::unique_ptr<ReplyFormatter> formatter)
    : generation_(std::move(generation)), formatter_(std::move(formatter)) {}

GenerationResponse::~GenerationResponse() {
  generation_->SetWaker(nullptr);
  if (!done_) generation_->Cancel(CancelledError("the client has disconnected"));
}

void GenerationResponse::SetWaker(std::function<void()> wake) {
  generation_->SetWaker(std::move(wake));
}

ResponsePart GenerationResponse::Take() {
  ResponsePart part;
  if (done_) return part;
  if (formatter_->streaming() && !begun_) {
    begun_ = true;
    part.head = EventStreamHead();
    // What a request names is what it gets. Other ids are known only once the prompt was matched.
    if (!generation_->named().empty()) {
      part.head->headers.emplace_back(kConversationHeader, generation_->named());
    }
    part.bytes = formatter_->Begin();
  }
  for (const GenerationEvent& event : generation_->Take()) {
    part.bytes += formatter_->Add(event);
    if (const auto* finished = std::get_if<FinishedReply>(&event)) {
      done_ = true;
      reuse_ = finished->result.reuse;
      conversation_ = finished->result.conversation;
    }
  }
  if (!done_) return part;
  part.done = true;
  if (!formatter_->streaming()) {
    part.whole = formatter_->Whole();
    part.whole->headers.emplace_back(
        "X-Holdfast-Reuse", fmt::format("source={}; reused={}; read={}; restore_ms={:.1f}",
                                        ReuseSourceName(reuse_.source), reuse_.tokens_reused,
                                        reuse_.tokens_read, reuse_.restore_ms));
    if (!conversation_.empty()) {
      part.whole->headers.emplace_back(kConversationHeader, conversation_);
    }
  }
  return part;
}

std::string GenerationResponse::Heartbeat() {
  return formatter_->streaming() ? formatter_->Heartbeat() : std::string();
}

void GenerationResponse::Cancel(Status why) { generation_->Cancel(std::move(why)); }

HttpResponse EventStreamHead() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return head;
}

std::string ServerSentEvent(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

}  // namespace holdfast
