#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "engine/reuse.h"
#include "token/reply_parser.h"

namespace holdfast {
namespace {

// Fewer tokens than these are read sooner than waited for.
constexpr int64_t kWorthWaitingTokens = 32;
// As many tokens read again are worth a running state.
constexpr int64_t kWorthMarkingTokens = 128;
// Of one request.
constexpr int kMaxRestores = 3;

double Ms(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

DraftSource SourceFor(DraftSource wanted, const Model& model) {
  const bool has_head = model.draft_layout() != nullptr;
  if (wanted == DraftSource::kAuto) return has_head ? DraftSource::kMtp : DraftSource::kLookup;
  return wanted == DraftSource::kMtp && !has_head ? DraftSource::kAuto : wanted;
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Scheduler::Scheduler(Model* model, StateCache* cache, const Tokenizer* tokenizer,
                     Persistence* persistence, const SchedulerOptions& options)
    : model_(model),
      cache_(cache),
      tokenizer_(tokenizer),
      persistence_(persistence),
      options_(options),
      source_(SourceFor(options.draft_source, *model)),
      draft_policy_(options.max_drafts < 0 ? DraftPolicy::kMaxDepth : options.max_drafts,
                    /*adaptive=*/options.max_drafts < 0) {
  for (TokenId id = 0; id < model->config().vocab_size; ++id) {
    if (!tokenizer->IsSampleable(id)) banned_.push_back(id);
  }
}

Scheduler::~Scheduler() {
  CancelAll(CancelledError("the engine is shutting down"));
  ReportCommitted(/*all=*/true);
}

void Scheduler::Add(RequestId id, GenerateRequest request, std::shared_ptr<RequestSink> sink) {
  auto active = std::make_unique<Active>();
  active->id = id;
  active->request = std::move(request);
  active->sink = std::move(sink);
  active->submitted = active->begun = active->first_token = Clock::now();
  const uint64_t seed = active->request.sampling.seed.value_or(RandomSeed());
  active->sampler.emplace(active->request.sampling, seed);
  if (const auto& grammar = active->request.grammar; grammar != nullptr) {
    active->constraint.emplace(grammar, PromptEndsInThink(*tokenizer_, active->request.prompt));
  }
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
    const ActivePtr waited = std::move(*w);
    waiting_.erase(w);
    waited->sink->OnFinish(ResultOf(*waited, FinishReason::kCancelled, std::move(why)));
  }
}

void Scheduler::CancelAll(const Status& why) {
  while (!waiting_.empty()) Cancel(waiting_.back()->id, why);
  while (!active_.empty()) Cancel(active_.back()->id, why);
}

void Scheduler::Abandon(const Status& why) {
  for (const ActivePtr& a : active_) {
    const Conversation& c = *a->conversation;
    computed_on_.insert(computed_on_.end(), c.pages().begin(), c.pages().end());
    computed_on_.push_back(c.running_block());
  }
  for (const ActivePtr& a : active_) Finish(a.get(), FinishReason::kError, why, /*keep=*/false);
  for (const ActivePtr& w : waiting_) {
    w->sink->OnFinish(ResultOf(*w, FinishReason::kError, why));
  }
}

StepResult Scheduler::Step() {
  ReportCommitted();
  Admit();
  if (idle()) return StepResult::kIdle;
  std::vector<Turn> turns = PlanStep();
  EraseFinished();
  if (turns.empty()) return idle() ? StepResult::kIdle : StepResult::kStalled;
  MakeDrafts(&turns);
  RunStep(&turns);
  EraseFinished();
  return StepResult::kProgress;
}

bool Scheduler::WorthWaiting(const PrefixMatch& match) const {
  if (match.reading_common - match.position < kWorthWaitingTokens) return false;
  return std::ranges::any_of(active_, [&](const ActivePtr& a) {
    return a->conversation->id() == match.reading_conversation && !a->decoding();
  });
}

// A request whose state is being restored has a slot: it begins as soon as the state is there.
void Scheduler::Admit() {
  const auto is_restoring = [](const ActivePtr& a) { return a->restoring(); };
  auto n_taken = static_cast<int>(active_.size()) + std::ranges::count_if(waiting_, is_restoring);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const bool had_slot = (*it)->restoring();
    if (!had_slot && n_taken >= options_.n_slots) {
      ++it;
      continue;
    }
    const Status status = Begin(it->get());
    const bool no_room = status.code() == StatusCode::kResourceExhausted && !active_.empty();
    if (status.code() == StatusCode::kUnavailable || no_room) {
      if (!had_slot && (*it)->restoring()) ++n_taken;
      ++it;  // what it waits for is being computed, restored, saved or given back
      continue;
    }
    ActivePtr active = std::move(*it);
    it = waiting_.erase(it);
    if (status.ok()) {
      if (!had_slot) ++n_taken;
      active_.push_back(std::move(active));
    } else {
      if (had_slot) --n_taken;
      active->sink->OnFinish(ResultOf(*active, FinishReason::kError, status));
    }
  }
}

Status Scheduler::Begin(Active* active) {
  const TokenView prompt(active->request.prompt);
  const std::string& named = active->request.conversation;
  if (active->restore != nullptr && !active->restore->done()) {
    return UnavailableError("its state is being restored");
  }
  PrefixMatch match = cache_->Find(prompt, named);
  const bool may_reuse = !active->request.prompt_logprobs;
  if (!may_reuse) match.TakeNothing(MatchLimit::kRowsWanted);
  if (may_reuse && WorthWaiting(match)) {
    return UnavailableError("another request is reading the same prompt");
  }
  std::optional<RestoreReport> restored;
  if (active->restore != nullptr) restored = active->restore->report();
  // What came back may be gone again before it could be bound.
  const bool again = restored && active->n_restores < kMaxRestores &&
                     (match.source == MatchSource::kDisk || match.position < restored->position);
  const bool deeper =
      may_reuse && (match.source == MatchSource::kDisk || match.position < prompt.size() - 1);
  if (persistence_ != nullptr && (again || (active->restore == nullptr && deeper))) {
    const int64_t beyond = match.source == MatchSource::kDisk ? 0 : match.position;
    active->restore = persistence_->StartRestore(prompt, beyond, named);
    ++active->n_restores;
    return UnavailableError("its state is being restored");
  }
  while (match.source == MatchSource::kDisk) {
    // It could not be brought back: go on with what is left.
    cache_->UnregisterDisk(match.conversation);
    match = cache_->Find(prompt, named);
  }
  const int64_t stored_to = active->restore != nullptr ? active->restore->differs_at() : 0;
  const bool by_store = stored_to > match.common;
  const int64_t difference = by_store ? stored_to : match.differs ? match.common : 0;
  const bool marked = MarkDifference(match.position, difference, &active->request.checkpoints);
  HF_ASSIGN_OR_RETURN(active->conversation, cache_->Begin(match, prompt,
                                                          {.id = active->request.conversation,
                                                           .marks = active->request.checkpoints,
                                                           .with_draft = drafts_by_head()}));
  active->begun = Clock::now();
  active->reuse = ExplainMatch(match, prompt.size(), *tokenizer_);
  if (by_store) {
    active->reuse.tokens_known = std::min(stored_to, prompt.size());
    active->reuse.first_difference = stored_to;
    active->reuse.reason = active->restore->reason();
  }
  if (marked) active->reuse.reason += "; from now on one is kept there";
  if (restored) {
    active->reuse.source = ReuseSource::kDisk;
    active->reuse.restore_ms = restored->ms;
    if (!restored->note.empty()) active->reuse.reason += "; " + restored->note;
  }
  active->sink->OnPromptProgress(match.position, prompt.size(), match.position);
  return OkStatus();
}

// What changes in a system block once (a date) changes again: the state before it is worth keeping.
bool Scheduler::MarkDifference(int64_t reused, int64_t difference,
                               std::vector<CheckpointMark>* marks) {
  const bool in_system = std::ranges::any_of(*marks, [&](const CheckpointMark& mark) {
    return mark.kind == CheckpointKind::kSystem && mark.position > difference;
  });
  if (!in_system || difference - reused < kWorthMarkingTokens) return false;
  marks->push_back({difference, CheckpointKind::kMark});
  return true;
}

void Scheduler::Finish(Active* a, FinishReason reason, Status status, bool keep) {
  Conversation* c = a->conversation;
  const std::string id = c->id();
  const auto committed = std::make_shared<bool>(false);
  bool committing = false;
  if (!keep) {
    cache_->ParkAtCheckpoint(c);
  } else {
    if (c->n_computed() > 0 && a->decoding()) cache_->TakeCheckpoint(c, CheckpointKind::kTurnEnd);
    committing = persistence_ != nullptr &&
                 persistence_->TurnEnded(c, a->sink->TurnToKeep(reason),
                                         [committed](const Status&) { *committed = true; });
    cache_->Park(c);
  }
  a->conversation = nullptr;
  a->request.conversation = id;
  GenerateResult result = ResultOf(*a, reason, std::move(status));
  if (committing) {
    committing_.push_back({committed, a->sink, std::move(result)});
  } else {
    a->sink->OnFinish(result);
  }
}

void Scheduler::ReportCommitted(bool all) {
  std::vector<Committing> ended;
  for (Committing& c : committing_) {
    if (all || *c.committed) ended.push_back(std::move(c));
  }
  std::erase_if(committing_, [](const Committing& c) { return c.sink == nullptr; });
  for (const Committing& c : ended) c.sink->OnFinish(c.result);
}

GenerateResult Scheduler::ResultOf(const Active& a, FinishReason reason, Status status) {
  const auto now = Clock::now();
  const bool began = a.begun != a.submitted;
  return {.reason = reason,
          .status = std::move(status),
          .seed = a.sampler->seed(),
          .conversation = a.request.conversation,
          .reuse = a.reuse,
          .timings = {.queue_ms = Ms(a.submitted, began ? a.begun : now),
                      .prompt_ms = a.decoding() ? Ms(a.begun, a.first_token)
                                   : began      ? Ms(a.begun, now)
                                                : 0.0,
                      .predict_ms = a.decoding() ? Ms(a.first_token, now) : 0.0,
                      .n_prompt = static_cast<int64_t>(a.request.prompt.size()),
                      .n_predicted = a.n_generated,
                      .n_drafted = a.n_drafted,
                      .n_accepted = a.n_accepted,
                      .drafts = a.drafts}};
}

void Scheduler::EraseFinished() {
  for (ActivePtr& a : active_) {
    if (a->conversation == nullptr && a->log != nullptr) free_logs_.push_back(std::move(a->log));
  }
  std::erase_if(active_, [](const ActivePtr& a) { return a->conversation == nullptr; });
}

SchedulerStatus Scheduler::status() const {
  SchedulerStatus status{.drafts = draft_policy_.counts(),
                         .n_waiting = n_waiting(),
                         .n_restoring = std::ranges::count_if(
                             waiting_, [](const ActivePtr& a) { return a->restoring(); }),
                         .n_committing = static_cast<int64_t>(committing_.size()),
                         .n_steps = n_steps_,
                         .last_step_ms = last_step_ms_};
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
