#include "engine/restorer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace holdfast {
namespace {

// Buffers that were used before are cleared when they are taken: a step must not wait for more of
// them than this.
constexpr size_t kRoomBytesPerTick = 64 << 20;

// None for a live end, which is no checkpoint.
// An end is kept like every end of a turn: others may be waiting to begin there when whoever asked
// for it goes on.
CheckpointKind CheckpointKindOf(StateKind kind) {
  switch (kind) {
    case StateKind::kBeforeReply:
      return CheckpointKind::kBeforeReply;
    case StateKind::kTurnEnd:
    case StateKind::kLiveEnd:
      return CheckpointKind::kTurnEnd;
    case StateKind::kCacheMark:
      return CheckpointKind::kMark;
    case StateKind::kLadder:
      return CheckpointKind::kLadder;
    case StateKind::kSystem:
      return CheckpointKind::kSystem;
  }
  return CheckpointKind::kTurnEnd;
}

// Runs `fill` with the host's view of several buffers at once.
Status WithAllHostBytes(Backend* backend, std::span<Buffer* const> buffers,
                        std::vector<std::span<std::byte>>* views,
                        const std::function<Status(std::span<const std::span<std::byte>>)>& fill) {
  if (views->size() == buffers.size()) return fill(*views);
  return backend->WithHostBytes(buffers[views->size()], [&](std::span<std::byte> bytes) {
    views->push_back(bytes);
    return WithAllHostBytes(backend, buffers, views, fill);
  });
}

}  // namespace

Restorer::Restorer(Store* store, Model* model, StateCache* cache, StateProver* prover,
                   OnAdopted on_adopted, std::function<void()> wake, std::function<void()> on_part)
    : store_(store),
      model_(model),
      cache_(cache),
      prover_(prover),
      on_adopted_(std::move(on_adopted)),
      wake_(std::move(wake)),
      on_part_(std::move(on_part)) {}

Restorer::~Restorer() { stop_ = true; }

std::shared_ptr<const Restore> Restorer::Start(TokenView prompt, int64_t beyond,
                                               const std::string& named) {
  const auto job = std::make_shared<Restore>();
  job->prompt_.assign(prompt.ids.begin(), prompt.ids.end());
  job->beyond_ = beyond;
  job->named_ = named;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.n_running;
  }
  finder_.Post([this, job] {
    Find(job.get());
    Arrive(job);
  });
  return job;
}

void Restorer::Arrive(Job job) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(job));
  }
  if (wake_) wake_();
}

void Restorer::Find(Restore* job) {
  auto found = store_->Find(job->prompt_);
  if (!found.ok()) {
    spdlog::error("store: {}", found.status().ToString());
    return;
  }
  if (found->expected >= 0) job->differs_at_ = found->matched_tokens;
  job->reason_ = found->reason;
  if (!found->prefix || found->prefix->position <= job->beyond_) return;
  StoredPrefix& prefix = job->prefix_.emplace(*std::move(found->prefix));
  if (job->named_.empty() || job->named_ == prefix.conversation) return;
  const auto theirs = store_->FindIn(job->named_);
  if (theirs.ok() && theirs->state_id == prefix.state_id) {
    prefix.conversation = job->named_;
    prefix.kind = StateKind::kLiveEnd;
  }
}

void Restorer::Tick() {
  std::vector<Job> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  const bool was_reading = reading_ != nullptr;
  for (const Job& job : arrived) TakeUp(job);
  if (!arrived.empty() || reading_ == nullptr) DropNeedless();
  // Room for the next one could be made by evicting what has just come back, before the request
  // that waits for it binds it.
  if (!was_reading) BeginNext();
}

void Restorer::TakeUp(const Job& job) {
  if (job->stage_ == Restore::Stage::kFinding && job->prefix_) {
    job->stage_ = Restore::Stage::kQueued;
    queued_.push_back(job);
    return;
  }
  if (job->stage_ == Restore::Stage::kReading) {
    reading_.reset();
    Adopt(job.get());
  }
  Finish(job.get());
}

// Those that nobody waits for any more, and those whose state is in RAM by now.
void Restorer::DropNeedless() {
  std::erase_if(queued_, [&](const Job& job) {
    const PrefixMatch match = cache_->Find(TokenView(job->prompt_), job->named_);
    const bool there =
        match.source != MatchSource::kDisk && match.position >= job->prefix_->position;
    if (job.use_count() > 1 && !there) return false;
    Finish(job.get());
    return true;
  });
}

void Restorer::BeginNext() {
  while (reading_ == nullptr && !queued_.empty()) {
    const Job job = queued_.front();
    const Status status = MakeRoom(job.get());
    const bool later =
        status.code() == StatusCode::kUnavailable ||
        (status.code() == StatusCode::kResourceExhausted && cache_->stats().n_bound > 0);
    if (later) job->DropBuffers();
    if (later || (status.ok() && job->state_.running == nullptr)) return;
    queued_.pop_front();
    if (status.ok()) {
      job->stage_ = Restore::Stage::kReading;
      reading_ = job;
      reader_.Post([this, job] {
        Read(job.get());
        Arrive(job);
      });
      return;
    }
    spdlog::error("store: conversation {} was not restored and is read again: {}",
                  job->prefix_->conversation, status.ToString());
    Finish(job.get());
  }
}

// Takes some of the buffers; all are there when there is a running state.
Status Restorer::MakeRoom(Restore* job) {
  RestoredConversation& state = job->state_;
  const TokenView prompt(job->prompt_);
  const int64_t n = job->prefix_->position;
  const auto n_pages = static_cast<size_t>(cache_->trunk_layout().PagesFor(n));
  if (state.tokens.size() == 0) {
    state.tokens = prompt.Prefix(n);
    state.next_token = prompt.key(n);
    state.has_draft = job->prefix_->has_draft && cache_->draft_layout() != nullptr;
    state.pages = cache_->SharedPages(state.tokens, state.has_draft);
    job->first_page_ = static_cast<int64_t>(state.pages.size());
    for (const BlockPtr& page : state.pages) job->shared_.emplace_back(page);
  }
  for (size_t taken = 0; state.pages.size() < n_pages && taken < kRoomBytesPerTick;) {
    HF_ASSIGN_OR_RETURN(BlockPtr page, cache_->AllocatePage(state.has_draft));
    taken += page->bytes();
    state.pages.push_back(std::move(page));
  }
  if (state.pages.size() == n_pages) {
    if (n % cache_->trunk_layout().page_tokens() == 0 && job->prefix_->proof) {
      HF_ASSIGN_OR_RETURN(job->extra_, cache_->AllocatePage(false));
    }
    HF_ASSIGN_OR_RETURN(state.running, cache_->AllocateRunning(state.has_draft));
  }
  return OkStatus();
}

void Restorer::Read(Restore* job) {
  const auto buffer_of = [&](const PartRef& part) {
    const BlockPtr& block = part.running ? job->state_.running : job->state_.pages[part.index];
    return part.section == StateSection::kTrunk ? block->trunk.get() : block->draft.get();
  };
  const auto sink =
      [&](std::span<const PartRef> parts,
          const std::function<Status(std::span<const std::span<std::byte>>)>& fill) -> Status {
    if (stop_) return CancelledError("the engine is shutting down");
    std::vector<Buffer*> buffers;
    for (const PartRef& part : parts) buffers.push_back(buffer_of(part));
    std::vector<std::span<std::byte>> views;
    Status status = WithAllHostBytes(model_->backend(), buffers, &views, fill);
    on_part_();
    return status;
  };
  job->loaded_ =
      store_->Load(*job->prefix_,
                   {.sink = sink, .first_page = job->first_page_, .draft = job->state_.has_draft});
}

void Restorer::Adopt(Restore* job) {
  const StoredPrefix& prefix = *job->prefix_;
  RestoredConversation& state = job->state_;
  Status status = job->loaded_.status();
  RestoreReport report{.position = prefix.position};
  uint64_t bytes_read = 0;
  if (status.ok()) {
    state.has_draft = job->loaded_->draft_loaded;
    report.note = job->loaded_->note;
    bytes_read = job->loaded_->bytes_read;
    status = Prove(*job);
  }
  job->shared_.clear();
  if (status.ok()) {
    GiveId(job);
    state.checkpoints.push_back({.position = prefix.position,
                                 .kind = CheckpointKindOf(prefix.kind),
                                 .running = state.running});
    const Result<Conversation*> adopted = cache_->Adopt(std::move(state));
    status = adopted.status();
    if (status.ok()) on_adopted_(**adopted, prefix);
  }
  if (!status.ok()) {
    spdlog::error("store: conversation {} was not restored and is read again: {}",
                  prefix.conversation, status.ToString());
  } else {
    report.ms =
        std::chrono::duration<double, std::milli>(Restore::Clock::now() - job->start_).count();
    job->report_ = std::move(report);
  }
  const std::lock_guard lock(mutex_);
  stats_.bytes_read += bytes_read;
  if (status.ok()) ++stats_.n_restores;
}

// The row of the next token, computed on trial, must be the one that was stored.
Status Restorer::Prove(const Restore& job) {
  const StoredPrefix& prefix = *job.prefix_;
  const RestoredConversation& state = job.state_;
  if (!prefix.proof) return OkStatus();
  std::vector<Buffer*> pages;
  for (const BlockPtr& page : state.pages) pages.push_back(page->trunk.get());
  if (job.extra_ != nullptr) pages.push_back(job.extra_->trunk.get());
  HF_ASSIGN_OR_RETURN(const StateProof proof,
                      prover_->Prove(state.tokens.ids, prefix.proof->next_token,
                                     state.running->trunk.get(), pages));
  if (proof == *prefix.proof) return OkStatus();
  const Status wrong = DataLossError(fmt::format(
      "the state of conversation {} at token {} does not give the row that was stored with it",
      prefix.conversation, prefix.position));
  const Status put_aside = store_->Quarantine(prefix, wrong.message());
  if (!put_aside.ok()) spdlog::error("store: {}", put_aside.ToString());
  const std::lock_guard lock(mutex_);
  ++stats_.n_failed_proofs;
  return wrong;
}

// At its end it is the stored conversation; a shorter part of it is the beginning of another.
void Restorer::GiveId(Restore* job) {
  const StoredPrefix& prefix = *job->prefix_;
  RestoredConversation& state = job->state_;
  state.forked_from = prefix.conversation;
  if (prefix.kind != StateKind::kLiveEnd) return;
  if (Conversation* const shorter = cache_->FindById(prefix.conversation)) {
    // What is in RAM of it goes on in the restored one, or has become another conversation.
    const int64_t n = shorter->n_computed();
    if (shorter->bound() || n > prefix.position ||
        FirstDifference(shorter->tokens(), state.tokens) < n) {
      return;
    }
    state.pinned = shorter->pinned();
    for (const Checkpoint& checkpoint : shorter->checkpoints()) {
      if (checkpoint.position < prefix.position && (!state.has_draft || shorter->has_draft())) {
        state.checkpoints.push_back(checkpoint);
      }
    }
    cache_->Discard(shorter);
  }
  state.id = prefix.conversation;
  state.forked_from.clear();
}

void Restorer::Finish(Restore* job) {
  job->stage_ = Restore::Stage::kDone;
  job->DropBuffers();
  const std::lock_guard lock(mutex_);
  --stats_.n_running;
}

RestorerStats Restorer::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace holdfast
