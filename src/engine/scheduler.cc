#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine/logits_row.h"
#include "engine/reuse.h"

namespace holdfast {
namespace {

// Fewer tokens than these are read sooner than waited for.
constexpr int64_t kWorthWaitingTokens = 32;

double Ms(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::vector<CheckpointMark> MarksOf(const GenerateRequest& request) {
  std::vector<CheckpointMark> marks;
  for (size_t i = 0; i < request.checkpoints.size(); ++i) {
    const bool last = i + 1 == request.checkpoints.size();
    const bool first = i == 0;
    marks.push_back({.position = request.checkpoints[i],
                     .kind = last    ? CheckpointKind::kBeforeReply
                             : first ? CheckpointKind::kSystem
                                     : CheckpointKind::kMark});
  }
  return marks;
}

}  // namespace

Scheduler::Scheduler(Model* model, StateCache* cache, const Tokenizer* tokenizer,
                     Persistence* persistence, const SchedulerOptions& options)
    : model_(model),
      cache_(cache),
      tokenizer_(tokenizer),
      persistence_(persistence),
      options_(options) {
  for (TokenId id = 0; id < model->config().vocab_size; ++id) {
    if (!tokenizer->IsSampleable(id)) banned_.push_back(id);
  }
}

Scheduler::~Scheduler() { CancelAll(CancelledError("the engine is shutting down")); }

void Scheduler::Add(RequestId id, GenerateRequest request, std::shared_ptr<RequestSink> sink) {
  auto active = std::make_unique<Active>();
  active->id = id;
  active->request = std::move(request);
  active->sink = std::move(sink);
  active->submitted = active->begun = active->first_token = Clock::now();
  const uint64_t seed = active->request.sampling.seed.value_or(RandomSeed());
  active->sampler.emplace(active->request.sampling, seed);
  auto place = waiting_.end();
  if (active->request.priority == Priority::kSide) {
    place = std::find_if(waiting_.begin(), waiting_.end(), [](const ActivePtr& other) {
      return other->request.priority == Priority::kNormal;
    });
  }
  waiting_.insert(place, std::move(active));
}

void Scheduler::Cancel(RequestId id, Status why) {
  const auto is_it = [&](const ActivePtr& a) { return a->id == id; };
  if (const auto it = std::ranges::find_if(active_, is_it); it != active_.end()) {
    Finish(it->get(), FinishReason::kCancelled, std::move(why), /*keep=*/true);
    EraseFinished();
  } else if (const auto w = std::ranges::find_if(waiting_, is_it); w != waiting_.end()) {
    ReportFinish(w->get(), FinishReason::kCancelled, std::move(why));
    waiting_.erase(w);
  }
}

void Scheduler::CancelAll(const Status& why) {
  while (!waiting_.empty()) Cancel(waiting_.back()->id, why);
  while (!active_.empty()) Cancel(active_.back()->id, why);
}

StepResult Scheduler::Step() {
  Admit();
  if (idle()) return StepResult::kIdle;
  const std::vector<int64_t> rows = PlanRows();
  EraseFinished();
  if (std::ranges::all_of(rows, [](int64_t n) { return n == 0; })) {
    return idle() ? StepResult::kIdle : StepResult::kStalled;
  }
  RunStep(rows);
  EraseFinished();
  return StepResult::kProgress;
}

bool Scheduler::WorthWaiting(const PrefixMatch& match) const {
  if (match.reading_common - match.position < kWorthWaitingTokens) return false;
  return std::ranges::any_of(active_, [&](const ActivePtr& a) {
    return a->conversation->id() == match.reading_conversation && !a->decoding();
  });
}

void Scheduler::Admit() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (static_cast<int>(active_.size()) >= options_.n_slots) return;
    const Status status = Begin(it->get());
    const bool no_room = status.code() == StatusCode::kResourceExhausted && !active_.empty();
    if (status.code() == StatusCode::kUnavailable || no_room) {
      ++it;  // what it waits for is being computed, saved or given back
      continue;
    }
    ActivePtr active = std::move(*it);
    it = waiting_.erase(it);
    if (status.ok()) {
      active_.push_back(std::move(active));
    } else {
      ReportFinish(active.get(), FinishReason::kError, status);
    }
  }
}

Status Scheduler::Begin(Active* active) {
  const TokenView prompt(active->request.prompt);
  PrefixMatch match = cache_->Find(prompt);
  if (WorthWaiting(match)) {
    return UnavailableError("another request is reading the same prompt");
  }
  std::optional<RestoreReport> restored;
  if (persistence_ != nullptr && match.position < prompt.size() - 1) {
    restored =
        persistence_->Restore(prompt, match.source == MatchSource::kDisk ? 0 : match.position);
    if (restored || match.source == MatchSource::kDisk) match = cache_->Find(prompt);
  }
  while (match.source == MatchSource::kDisk) {
    // It could not be brought back: go on with what is left.
    cache_->UnregisterDisk(match.conversation);
    match = cache_->Find(prompt);
  }
  HF_ASSIGN_OR_RETURN(active->conversation, cache_->Begin(match, prompt,
                                                          {.id = active->request.conversation,
                                                           .marks = MarksOf(active->request)}));
  active->begun = Clock::now();
  active->reuse = ExplainMatch(match, prompt.size(), *tokenizer_);
  if (restored) {
    active->reuse.source = ReuseSource::kDisk;
    active->reuse.restore_ms = restored->ms;
    if (!restored->note.empty()) active->reuse.reason += "; " + restored->note;
  }
  active->sink->OnPromptProgress(match.position, prompt.size(), match.position);
  return OkStatus();
}

// Rows of each active request: one while decoding, its share of the budget while reading.
std::vector<int64_t> Scheduler::PlanRows() {
  int64_t n_decode = 0;
  std::vector<PendingRead> reads;
  for (const ActivePtr& a : active_) {
    if (a->decoding()) {
      ++n_decode;
    } else {
      reads.push_back(
          {.remaining = a->remaining(),
           .until_stop = cache_->NextStop(*a->conversation) - a->conversation->n_computed(),
           .waited_steps = a->waited_steps});
    }
  }
  const std::vector<int64_t> read_rows =
      PlanReads(reads, timer_.ReadBudget(n_decode, options_.step_target_ms, model_->max_rows()));
  std::vector<int64_t> rows;
  size_t next_read = 0;
  for (const ActivePtr& a : active_) {
    int64_t n = a->decoding() ? 1 : read_rows[next_read++];
    const Status status =
        n == 0 ? OkStatus()
               : cache_->PrepareWrite(a->conversation, a->conversation->n_computed() + n);
    if (status.code() == StatusCode::kUnavailable) {
      n = 0;
    } else if (!status.ok()) {
      n = 0;
      Finish(a.get(), FinishReason::kError, status, /*keep=*/true);
      continue;
    }
    a->waited_steps = n > 0 ? 0 : a->waited_steps + 1;
    rows.push_back(n);
  }
  return rows;
}

// A step that begins at a checkpoint computes the row that will prove its restore.
std::vector<const Conversation*> Scheduler::AddProofRows(std::span<const int64_t> rows,
                                                         Batch* batch) const {
  std::vector<const Conversation*> proved;
  int32_t row = 0;
  for (size_t i = 0; persistence_ != nullptr && i < active_.size(); ++i) {
    const Conversation& c = *active_[i]->conversation;
    const auto at_start = [&](const Checkpoint& k) { return k.position == c.n_computed(); };
    if (rows[i] > 0 && std::ranges::any_of(c.checkpoints(), at_start)) {
      proved.push_back(&c);
      batch->output_rows.push_back(row);
    }
    row += static_cast<int32_t>(rows[i]);
  }
  return proved;
}

void Scheduler::RunStep(std::span<const int64_t> rows) {
  const auto start = Clock::now();
  Batch batch;
  std::vector<Active*> ready;  // whose last token is in this step
  int64_t n_rows = 0, n_decode = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    if (rows[i] == 0) continue;
    Active* a = active_[i].get();
    const Conversation& c = *a->conversation;
    batch.sequences.push_back({.tokens = c.tokens().ids.first(c.n_computed() + rows[i]),
                               .first_position = c.n_computed(),
                               .running = c.running(),
                               .pages = c.page_buffers()});
    n_rows += rows[i];
    if (a->decoding()) ++n_decode;
    if (rows[i] == a->remaining()) {
      ready.push_back(a);
      batch.output_rows.push_back(static_cast<int32_t>(n_rows - 1));
    }
  }
  const size_t n_ready = batch.output_rows.size();
  const std::vector<const Conversation*> proved = AddProofRows(rows, &batch);
  const int64_t vocab = model_->config().vocab_size, hidden = model_->config().hidden_size;
  logits_.resize(batch.output_rows.size() * vocab);
  mixed_.resize(proved.empty() ? 0 : batch.output_rows.size() * hidden);
  const Status status = model_->Forward(batch, logits_, mixed_);
  last_step_ms_ = Ms(start, Clock::now());
  ++n_steps_;
  if (!status.ok()) {
    // The states of this step are no longer those of any position.
    for (size_t i = 0; i < active_.size(); ++i) {
      if (rows[i] > 0) Finish(active_[i].get(), FinishReason::kError, status, /*keep=*/false);
    }
    return;
  }
  for (size_t i = 0; i < proved.size(); ++i) {
    const Conversation& c = *proved[i];
    persistence_->RecordProof(c, c.n_computed(), c.tokens().ids[c.n_computed()],
                              std::span(mixed_).subspan((n_ready + i) * hidden, hidden));
  }
  timer_.Add(n_decode, n_rows - n_decode, last_step_ms_);
  if (timer_.ms_per_read_row() > 0) cache_->SetReadSpeed(timer_.ms_per_read_row() / 1000);

  for (size_t i = 0, next = 0; i < active_.size(); ++i) {
    if (rows[i] == 0) continue;
    Active* a = active_[i].get();
    const bool is_ready = next < ready.size() && ready[next] == a;
    const auto row =
        is_ready ? std::span(logits_).subspan(next++ * vocab, vocab) : std::span<float>();
    const Status advanced =
        cache_->Advance(a->conversation, a->conversation->n_computed() + rows[i]);
    if (!advanced.ok()) {
      Finish(a, FinishReason::kError, advanced, /*keep=*/false);
      continue;
    }
    if (!a->decoding()) {
      a->sink->OnPromptProgress(a->conversation->n_computed(),
                                static_cast<int64_t>(a->request.prompt.size()),
                                a->reuse.tokens_reused);
    }
    if (is_ready) TakeToken(a, row);
  }
}

bool Scheduler::TakeToken(Active* a, std::span<float> logits) {
  Conversation* c = a->conversation;
  if (a->request.max_tokens == 0) {
    a->first_token = Clock::now();
    Finish(a, FinishReason::kMaxTokens, OkStatus(), /*keep=*/true);
    return false;
  }
  const int64_t position = c->n_tokens() - 1;
  for (TokenId id : banned_) logits[id] = -std::numeric_limits<float>::infinity();
  const Result<TokenId> token = a->sampler->Sample(logits, c->tokens().ids, position);
  if (!token.ok()) {
    Finish(a, FinishReason::kError, token.status(), /*keep=*/false);
    return false;
  }
  if (a->n_generated == 0) a->first_token = Clock::now();
  ++a->n_generated;
  cache_->Append(c, {.id = *token});
  TokenEvent event{.id = *token, .position = position + 1};
  if (a->request.n_top_logprobs >= 0) {
    Result<RowLogprobs> logprobs = ComputeLogprobs(logits, *token, a->request.n_top_logprobs);
    if (logprobs.ok()) {
      event.logprob = logprobs->logprob;
      event.top = std::move(logprobs->top);
    }
  }
  const SinkAnswer answer = a->sink->OnToken(event);
  if (!a->request.ignore_eos && tokenizer_->IsEndOfGeneration(*token)) {
    Finish(a, FinishReason::kEndOfTurn, OkStatus(), /*keep=*/true);
  } else if (answer == SinkAnswer::kStop) {
    Finish(a, FinishReason::kStopped, OkStatus(), /*keep=*/true);
  } else if (a->n_generated == a->request.max_tokens) {
    Finish(a, FinishReason::kMaxTokens, OkStatus(), /*keep=*/true);
  } else if (c->n_tokens() >= options_.ctx) {
    Finish(a, FinishReason::kContextFull, OkStatus(), /*keep=*/true);
  } else {
    return true;
  }
  return false;
}

void Scheduler::Finish(Active* a, FinishReason reason, Status status, bool keep) {
  Conversation* c = a->conversation;
  const std::string id = c->id();
  if (!keep) {
    cache_->Discard(c);
  } else {
    if (c->n_computed() > 0 && a->decoding()) cache_->TakeCheckpoint(c, CheckpointKind::kTurnEnd);
    if (persistence_ != nullptr) persistence_->TurnEnded(c);
    cache_->Park(c);
  }
  a->conversation = nullptr;
  if (a->request.conversation.empty()) a->request.conversation = id;
  ReportFinish(a, reason, std::move(status));
}

void Scheduler::ReportFinish(Active* a, FinishReason reason, Status status) {
  const auto now = Clock::now();
  const bool began = a->begun != a->submitted;
  a->sink->OnFinish({.reason = reason,
                     .status = std::move(status),
                     .seed = a->sampler->seed(),
                     .conversation = a->request.conversation,
                     .reuse = a->reuse,
                     .timings = {.queue_ms = Ms(a->submitted, began ? a->begun : now),
                                 .prompt_ms = a->decoding() ? Ms(a->begun, a->first_token)
                                              : began       ? Ms(a->begun, now)
                                                            : 0.0,
                                 .predict_ms = a->decoding() ? Ms(a->first_token, now) : 0.0,
                                 .n_prompt = static_cast<int64_t>(a->request.prompt.size()),
                                 .n_predicted = a->n_generated}});
}

void Scheduler::EraseFinished() {
  std::erase_if(active_, [](const ActivePtr& a) { return a->conversation == nullptr; });
}

SchedulerStatus Scheduler::status() const {
  SchedulerStatus status{
      .n_waiting = n_waiting(), .n_steps = n_steps_, .last_step_ms = last_step_ms_};
  const auto now = Clock::now();
  for (const ActivePtr& a : active_) {
    const Conversation& c = *a->conversation;
    const double seconds = Ms(a->first_token, now) / 1000;
    status.slots.push_back(
        {.request = a->id,
         .conversation = c.id(),
         .reading = !a->decoding(),
         .n_tokens = c.n_tokens(),
         .n_computed = c.n_computed(),
         .n_generated = a->n_generated,
         .tokens_per_s = a->decoding() && seconds > 0 ? a->n_generated / seconds : 0.0});
  }
  return status;
}

}  // namespace holdfast
