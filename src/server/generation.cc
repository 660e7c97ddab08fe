#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "server/request_history.h"
#include "server/request_metrics.h"
#include "server/running_generations.h"
#include "server/slot_names.h"

namespace holdfast {
namespace {

int64_t BytesOf(const GenerationEvent& event) {
  if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
    return static_cast<int64_t>(sizeof(event) + reply->text.size());
  }
  if (const auto* detail = std::get_if<TokenDetail>(&event)) {
    return static_cast<int64_t>(sizeof(event) + detail->top.size() * sizeof(TokenDetail::Choice));
  }
  if (const auto* details = std::get_if<PromptDetails>(&event)) {
    size_t n_choices = 0;
    for (const TokenDetail& detail : details->tokens) n_choices += 1 + detail.top.size();
    return static_cast<int64_t>(sizeof(event) + n_choices * sizeof(TokenDetail::Choice));
  }
  return 0;  // few of them
}

}  // namespace

void AddReuseNote(const std::string& note, std::string* reason) {
  if (note.empty()) return;
  *reason += (reason->empty() ? "" : "; ") + note;
}

Generation::Generation(std::shared_ptr<const ModelService> model, ReplyAssembler assembler,
                       const Options& options)
    : model_(std::move(model)), options_(options), assembler_(std::move(assembler)) {
  recorder_.AddContent(options_.prefill);
}

Result<std::shared_ptr<Generation>> Generation::Start(std::shared_ptr<const ModelService> model,
                                                      GenerateRequest request,
                                                      ReplyAssembler assembler,
                                                      const Options& options) {
  Generator* generator = model->generator;
  // Seeds are returned to the client, and JSON numbers are exact up to 2^53 only in JavaScript.
  if (!request.sampling.seed) request.sampling.seed = std::random_device{}();
  std::shared_ptr<Generation> generation(
      new Generation(std::move(model), std::move(assembler), options));
  generation->with_logprobs_ = request.n_top_logprobs >= 0;
  generation->named_ = request.conversation;
  generation->SetThinkingLimit(request);
  if (generation->thinking_limit_ == 0 && generation->assembler_.in_think()) {
    std::vector<GenerationEvent> none;  // a model that always thinks
    generation->CloseThinking(&request, &none);
  }
  if (generation->thinking_limit_ >= 0) generation->request_ = request;
  HF_ASSIGN_OR_RETURN(const RequestId id, generator->Submit(std::move(request), generation));
  {
    std::lock_guard lock(generation->mutex_);
    // The engine may already be further: at the request behind the thinking.
    if (!generation->submitted_) generation->request_id_ = id;
    generation->submitted_ = true;
  }
  if (generation->model_->running != nullptr) generation->model_->running->Add(generation);
  return generation;
}

void Generation::SetWaker(std::function<void()> wake) {
  bool now = false;
  {
    std::lock_guard lock(mutex_);
    wake_ = wake;
    now = !waiting_.empty();
  }
  if (now && wake) wake();
}

std::vector<GenerationEvent> Generation::Take() {
  std::lock_guard lock(mutex_);
  waiting_bytes_ = 0;
  return std::exchange(waiting_, {});
}

void Generation::Cancel(Status why) {
  RequestId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (finished_ || !cancelled_.ok()) return;
    cancelled_ = std::move(why);
    if (!submitted_) return;
    id = request_id_;
  }
  model_->generator->Cancel(id);
}

void Generation::Fail(Status why) {
  FinishedReply failed;
  failed.result.reason = FinishReason::kError;
  failed.result.status = std::move(why);
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    waiting_.emplace_back(std::move(failed));
    wake = wake_;
  }
  if (wake) wake();
}

bool Generation::finished() {
  std::lock_guard lock(mutex_);
  return finished_;
}

void Generation::SetThinkingLimit(const GenerateRequest& request) {
  if (!model_->tokenizer->FindToken("</think>")) return;
  thinking_end_ = model_->tokenizer->Encode("\n</think>\n\n", AddedTokens::kAll);
  const int64_t n_prompt = static_cast<int64_t>(request.prompt.size());
  int64_t n_reply = std::max<int64_t>(model_->generator->context_length() - n_prompt, 0);
  if (request.max_tokens >= 0) n_reply = std::min(n_reply, request.max_tokens);
  const int64_t limit = ThinkingLimit(options_.thinking, n_reply);
  // Where not even its end would fit, the thinking is the reply.
  if (limit + static_cast<int64_t>(thinking_end_.size()) < n_reply) thinking_limit_ = limit;
}

// Adds the end of the thinking to the prompt and to the reply.
void Generation::CloseThinking(GenerateRequest* request, std::vector<GenerationEvent>* events) {
  request->prompt.insert(request->prompt.end(), thinking_end_.begin(), thinking_end_.end());
  tokens_.insert(tokens_.end(), thinking_end_.begin(), thinking_end_.end());
  n_tokens_before_ = tokens_.size();
  for (const TokenId id : thinking_end_) {
    for (ReplyEvent& reply : Record(assembler_.Push(id))) events->emplace_back(std::move(reply));
  }
}

// Begins the request behind the thinking. False when there is none: the reply has ended.
bool Generation::GoOnAfterThinking(const GenerateResult& result) {
  if (!at_thinking_limit_ || result.reason != FinishReason::kStopped) return false;
  const int64_t n_end = static_cast<int64_t>(thinking_end_.size());
  const int64_t n_more = result.timings.n_predicted + n_end;
  const int64_t n_prompt = static_cast<int64_t>(request_.prompt.size());
  const bool no_room = request_.max_tokens >= 0 && request_.max_tokens <= n_more;
  if (no_room || n_prompt + n_more >= model_->generator->context_length()) return false;

  at_thinking_limit_ = false;
  if (request_.max_tokens >= 0) request_.max_tokens -= n_more;
  request_.prompt.insert(request_.prompt.end(),
                         tokens_.begin() + static_cast<ptrdiff_t>(n_tokens_before_), tokens_.end());
  std::vector<GenerationEvent> events;
  CloseThinking(&request_, &events);
  if (!Enqueue(std::move(events))) return false;
  GenerateResult part = result;
  part.timings.n_predicted = n_more;
  AddEarlierPart(&part);
  std::optional<GenerateResult> before = std::exchange(earlier_, std::move(part));
  request_.checkpoints.clear();
  request_.prompt_logprobs = false;  // they have been given
  request_.conversation = result.conversation;
  request_.priority = Priority::kSide;  // it has had its turn in the queue
  const Result<RequestId> id = model_->generator->Submit(request_, shared_from_this());
  const std::lock_guard lock(mutex_);
  if (!id.ok()) {
    earlier_ = std::move(before);
    if (cancelled_.ok()) cancelled_ = id.status();
    return false;
  }
  request_id_ = *id;
  submitted_ = true;
  if (!cancelled_.ok()) model_->generator->Cancel(*id);  // it came while there was no request
  return true;
}

// Puts the result of the requests before this one in front of it.
void Generation::AddEarlierPart(GenerateResult* result) const {
  if (!earlier_) return;
  GenerateTimings& timings = result->timings;
  const GenerateTimings& before = earlier_->timings;
  timings.predict_ms += before.predict_ms + timings.queue_ms + timings.prompt_ms;
  timings.queue_ms = before.queue_ms;
  timings.prompt_ms = before.prompt_ms;
  timings.n_prompt = before.n_prompt;
  timings.n_predicted += before.n_predicted;
  timings.n_drafted += before.n_drafted;
  timings.n_accepted += before.n_accepted;
  timings.drafts.Add(before.drafts);
  result->reuse = earlier_->reuse;
}

TokenDetail::Choice Generation::MakeChoice(TokenId id, float logprob) const {
  return {id, logprob, std::string(model_->tokenizer->TokenBytes(id, /*include_control=*/true))};
}

TokenDetail Generation::MakeDetail(const TokenEvent& event) const {
  TokenDetail detail;
  detail.chosen = MakeChoice(event.id, event.logprob);
  for (const TokenLogprob& top : event.top) {
    detail.top.push_back(MakeChoice(top.id, top.logprob));
  }
  return detail;
}

std::vector<ReplyEvent> Generation::Record(std::vector<ReplyEvent> events) {
  for (const ReplyEvent& event : events) {
    switch (event.kind) {
      case ReplyEvent::Kind::kReasoning:
        recorder_.AddReasoning(event.text);
        break;
      case ReplyEvent::Kind::kContent:
        recorder_.AddContent(event.text);
        break;
      case ReplyEvent::Kind::kToolCallBegin:
        recorder_.BeginToolCall(event.id, event.name);
        break;
      case ReplyEvent::Kind::kToolCallArguments:
        recorder_.AddArguments(event.text);
        break;
      case ReplyEvent::Kind::kToolCallEnd:
        break;
    }
  }
  return events;
}

SinkAnswer Generation::OnToken(const TokenEvent& event) {
  if (model_->metrics != nullptr) {
    const auto now = std::chrono::steady_clock::now();
    if (last_token_) {
      model_->metrics->AddGap(std::chrono::duration<double>(now - *last_token_).count());
    }
    last_token_ = now;
  }
  std::vector<GenerationEvent> events;
  const bool is_end = model_->tokenizer->IsEndOfGeneration(event.id);
  if (with_logprobs_ && !is_end) {
    events.emplace_back(MakeDetail(event));
  }
  tokens_.push_back(event.id);
  bool enough = false;
  for (ReplyEvent& reply : Record(assembler_.Push(event.id))) {
    enough |= options_.single_tool_call && reply.kind == ReplyEvent::Kind::kToolCallEnd;
    events.emplace_back(std::move(reply));
  }
  at_thinking_limit_ = !is_end && thinking_limit_ >= 0 && assembler_.in_think() &&
                       assembler_.n_reasoning_tokens() >= thinking_limit_;
  const bool wanted = Enqueue(std::move(events));
  return wanted && !enough && !at_thinking_limit_ && !assembler_.stopped() ? SinkAnswer::kContinue
                                                                           : SinkAnswer::kStop;
}

void Generation::OnPromptProgress(int64_t processed, int64_t total, int64_t reused) {
  std::vector<GenerationEvent> events;
  if (options_.progress && !earlier_) {
    events.emplace_back(PromptProgress{processed, total, reused});
  }
  Enqueue(std::move(events));
}

void Generation::OnPromptTokens(std::span<const TokenEvent> tokens) {
  PromptDetails details;
  details.first_position = tokens.front().position;
  for (const TokenEvent& token : tokens) details.tokens.push_back(MakeDetail(token));
  std::vector<GenerationEvent> events;
  events.emplace_back(std::move(details));
  Enqueue(std::move(events));
}

void Generation::EndReply(FinishReason reason) {
  if (std::exchange(ended_, true)) return;
  last_ = Record(assembler_.Finish());
  if (!options_.on_end) return;
  // With ignore_eos a reply may go on behind an end token; that one is part of it.
  if (!tokens_.empty() && model_->tokenizer->IsEndOfGeneration(tokens_.back())) tokens_.pop_back();
  // Behind a stop string the tokens go on further than the text.
  const bool is_reply = reason != FinishReason::kError && reason != FinishReason::kCancelled &&
                        !tokens_.empty() && assembler_.stop_matched().empty();
  const Json message = recorder_.Message();
  record_ = options_.on_end(is_reply ? &message : nullptr, tokens_);
}

std::shared_ptr<const TurnRecord> Generation::TurnToKeep(FinishReason reason) {
  // Stopped at the limit of its thinking the reply mostly goes on.
  if (at_thinking_limit_ && reason == FinishReason::kStopped) return nullptr;
  EndReply(reason);
  return record_;
}

void Generation::OnFinish(const GenerateResult& result) {
  if (GoOnAfterThinking(result)) return;
  EndReply(result.reason);
  std::vector<GenerationEvent> events;
  for (ReplyEvent& reply : last_) events.emplace_back(std::move(reply));
  FinishedReply finished;
  finished.result = result;
  // There was no room for anything behind the thinking.
  if (at_thinking_limit_ && result.reason == FinishReason::kStopped) {
    finished.result.reason = FinishReason::kMaxTokens;
  }
  AddEarlierPart(&finished.result);
  AddReuseNote(options_.reuse_note, &finished.result.reuse.reason);
  if (model_->history != nullptr) model_->history->Add(finished.result);
  if (model_->metrics != nullptr) model_->metrics->Add(finished.result);
  if (model_->slots != nullptr) model_->slots->Use(result.conversation, options_.slot);
  finished.has_tool_calls = assembler_.has_tool_calls();
  finished.n_reasoning_tokens = assembler_.n_reasoning_tokens();
  finished.stop_matched = assembler_.stop_matched();
  events.emplace_back(std::move(finished));
  Enqueue(std::move(events));
}

// Passes events on, and says whether the client still wants more. A reply that has been failed
// takes nothing any more.
bool Generation::Enqueue(std::vector<GenerationEvent> events) {
  if (model_->running != nullptr) model_->running->OnEngineEvent();
  std::function<void()> wake;
  bool wanted = false;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return false;
    for (GenerationEvent& event : events) {
      if (auto* finished = std::get_if<FinishedReply>(&event)) {
        finished_ = true;
        if (!cancelled_.ok()) {
          finished->result.reason = FinishReason::kCancelled;
          finished->result.status = cancelled_;
        }
      }
      waiting_bytes_ += BytesOf(event);
      waiting_.push_back(std::move(event));
    }
    if (waiting_bytes_ > options_.max_waiting_bytes && cancelled_.ok() && !finished_) {
      cancelled_ = ResourceExhaustedError(fmt::format(
          "the client reads too slowly: {} bytes of the reply are waiting for it", waiting_bytes_));
    }
    wanted = cancelled_.ok();
    if (!waiting_.empty()) wake = wake_;
  }
  if (wake) wake();
  return wanted;
}

}  // namespace holdfast
