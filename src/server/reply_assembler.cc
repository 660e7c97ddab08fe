#include "server/reply_assembler.h"

#include <utility>

namespace holdfast {

ReplyAssembler::ReplyAssembler(const Tokenizer* tokenizer, ReplyParser::Options options,
                               std::vector<std::string> stop)
    : stop_(std::move(stop)),
      think_begin_(tokenizer->FindToken("<think>")),
      think_end_(tokenizer->FindToken("</think>")),
      in_think_(options.starts_in_think) {
  parser_.emplace(tokenizer, std::move(options));
}

ReplyAssembler::ReplyAssembler(const Tokenizer* tokenizer, std::vector<std::string> stop)
    : detokenizer_(std::in_place, tokenizer), stop_(std::move(stop)) {}

void ReplyAssembler::AddContent(std::string text, std::vector<ReplyEvent>* out) {
  if (text.empty()) return;
  ReplyEvent event;
  event.kind = ReplyEvent::Kind::kContent;
  event.text = std::move(text);
  out->push_back(std::move(event));
}

void ReplyAssembler::FilterEvents(std::vector<ReplyEvent> events, std::vector<ReplyEvent>* out) {
  for (ReplyEvent& event : events) {
    if (stopped()) return;
    if (event.kind == ReplyEvent::Kind::kContent) {
      AddContent(stop_.Push(event.text), out);
      continue;
    }
    // No stop string reaches across a tool call or a thought.
    AddContent(stop_.Flush(), out);
    out->push_back(std::move(event));
  }
}

void ReplyAssembler::CountReasoning(TokenId id) {
  if (think_begin_ == id) in_think_ = true;
  if (in_think_) ++n_reasoning_tokens_;
  if (think_end_ == id) in_think_ = false;
}

std::vector<ReplyEvent> ReplyAssembler::Push(TokenId id) {
  std::vector<ReplyEvent> out;
  if (stopped()) return out;
  if (parser_) {
    CountReasoning(id);
    FilterEvents(parser_->Push(id), &out);
  } else {
    AddContent(stop_.Push(detokenizer_->Push(id)), &out);
  }
  return out;
}

std::vector<ReplyEvent> ReplyAssembler::Finish() {
  std::vector<ReplyEvent> out;
  if (stopped()) return out;
  if (parser_) {
    FilterEvents(parser_->Finish(), &out);
  } else {
    AddContent(stop_.Push(detokenizer_->Flush()), &out);
  }
  if (!stopped()) AddContent(stop_.Flush(), &out);
  return out;
}

}  // namespace holdfast
