#include "server/generation.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "server/running_generations.h"

namespace holdfast {
namespace {

int64_t BytesOf(const GenerationEvent& event) {
  if (const auto* reply = std::get_if<ReplyEvent>(&event)) {
    return static_cast<int64_t>(sizeof(event) + reply->text.size());
  }
  if (const auto* detail = std::get_if<TokenDetail>(&event)) {
    return static_cast<int64_t>(sizeof(event) + detail->top.size() * sizeof(TokenDetail::Choice));
  }
  return 0;  // few of them
}

}  // namespace

Generation::Generation(std::shared_ptr<const ModelService> model, ReplyAssembler assembler,
                       const Options& options)
    : model_(std::move(model)), options_(options), assembler_(std::move(assembler)) {}

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
  HF_ASSIGN_OR_RETURN(const RequestId id, generator->Submit(std::move(request), generation));
  {
    std::lock_guard lock(generation->mutex_);
    generation->request_id_ = id;
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

TokenDetail::Choice Generation::MakeChoice(TokenId id, float logprob) const {
  return {id, logprob, std::string(model_->tokenizer->TokenBytes(id, /*include_control=*/true))};
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
        recorder_.BeginToolCall(event.name);
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
  std::vector<GenerationEvent> events;
  const bool is_end = model_->tokenizer->IsEndOfGeneration(event.id);
  if (with_logprobs_ && !is_end) {
    TokenDetail detail;
    detail.chosen = MakeChoice(event.id, event.logprob);
    for (const TokenLogprob& top : event.top) {
      detail.top.push_back(MakeChoice(top.id, top.logprob));
    }
    events.emplace_back(std::move(detail));
  }
  if (!is_end) tokens_.push_back(event.id);
  for (ReplyEvent& reply : Record(assembler_.Push(event.id))) events.emplace_back(std::move(reply));
  return Enqueue(std::move(events)) && !assembler_.stopped() ? SinkAnswer::kContinue
                                                             : SinkAnswer::kStop;
}

void Generation::OnPromptProgress(int64_t processed, int64_t total, int64_t reused) {
  std::vector<GenerationEvent> events;
  if (options_.progress) events.emplace_back(PromptProgress{processed, total, reused});
  Enqueue(std::move(events));
}

void Generation::OnFinish(const GenerateResult& result) {
  std::vector<GenerationEvent> events;
  for (ReplyEvent& reply : Record(assembler_.Finish())) events.emplace_back(std::move(reply));
  const bool is_reply =
      result.reason != FinishReason::kError && result.reason != FinishReason::kCancelled;
  if (options_.on_reply && is_reply && !tokens_.empty()) {
    options_.on_reply(recorder_.Message(), tokens_);
  }
  FinishedReply finished;
  finished.result = result;
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
