#include "engine/persistence.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "store/identity_cache.h"
#include "store/model_identity.h"

namespace holdfast {
namespace {

StateKind KindOf(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kBeforeReply:
      return StateKind::kBeforeReply;
    case CheckpointKind::kTurnEnd:
      return StateKind::kTurnEnd;
    case CheckpointKind::kMark:
      return StateKind::kCacheMark;
    case CheckpointKind::kLadder:
      return StateKind::kLadder;
    case CheckpointKind::kSystem:
      return StateKind::kSystem;
  }
  return StateKind::kLadder;
}

// None for a live end, which is no checkpoint.
std::optional<CheckpointKind> CheckpointKindOf(StateKind kind) {
  for (CheckpointKind k :
       {CheckpointKind::kBeforeReply, CheckpointKind::kTurnEnd, CheckpointKind::kMark,
        CheckpointKind::kLadder, CheckpointKind::kSystem}) {
    if (KindOf(k) == kind) return k;
  }
  return std::nullopt;
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

const BlockReader& RunningAt(const ConversationSnapshot& snapshot, int64_t position) {
  for (const CheckpointSnapshot& checkpoint : snapshot.checkpoints) {
    if (checkpoint.position == position) return checkpoint.running;
  }
  return snapshot.running;
}

}  // namespace

Result<Autosave> ParseAutosave(std::string_view name) {
  if (name == "turn") return Autosave::kTurn;
  if (name == "idle") return Autosave::kIdle;
  if (name == "off") return Autosave::kOff;
  return InvalidArgumentError(
      fmt::format("autosave is '{}', wanted turn, idle or off", std::string(name)));
}

Persistence::Persistence(const PersistenceOptions& options, Model* model, StateCache* cache)
    : options_(options), model_(model), cache_(cache) {}

Result<std::unique_ptr<Persistence>> Persistence::Create(const PersistenceOptions& options,
                                                         Model* model, StateCache* cache) {
  std::unique_ptr<Persistence> p(new Persistence(options, model, cache));
  HF_ASSIGN_OR_RETURN(
      p->store_, Store::Open({.dir = options.dir,
                              .disk_budget_bytes = options.disk_budget_bytes,
                              .write_limit_bytes_per_hour = options.write_limit_bytes_per_hour},
                             std::nullopt));
  const ModelIdentity identity =
      IdentifyModel(p->store_.get(), model->file(), model->mtp_file(), model->config());
  HF_RETURN_IF_ERROR(p->store_->UseKeys(MakeStoreKeys(identity, cache->trunk_layout(),
                                                      cache->draft_layout(), options.numerics_key,
                                                      model->config().vocab_size, options.ctx)));
  for (const std::string& notice : p->store_->notices()) spdlog::warn("store: {}", notice);
  HF_ASSIGN_OR_RETURN(p->log_, model->backend()->Allocate(model->log_bytes()));
  p->worker_ = std::thread([raw = p.get()] { raw->Work(); });
  p->identity_thread_ = std::thread([raw = p.get()] {
    const auto full =
        FullIdentity(raw->model_->file(), raw->model_->config(), raw->cancel_identity_);
    if (!full.ok()) return;
    const auto n = raw->store_->SetFullIdentity(*full);
    if (n.ok() && *n > 0) {
      spdlog::error(
          "store: {} sessions belong to another model that only looks like this one; "
          "they are quarantined",
          *n);
    }
  });
  return p;
}

Persistence::~Persistence() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  cancel_identity_ = true;
  wake_.notify_all();
  if (worker_.joinable()) worker_.join();
  if (identity_thread_.joinable()) identity_thread_.join();
}

void Persistence::RecordProof(const Conversation& c, int64_t position, int32_t next_token,
                              std::span<const float> mixed) {
  proofs_[c.id()][position] = {.next_token = next_token, .row = Hash128Of(std::as_bytes(mixed))};
}

Result<StateProof> Persistence::ComputeProof(std::span<const int32_t> tokens, int32_t next_token,
                                             Buffer* running, std::span<Buffer* const> pages) {
  std::vector<float> logits(model_->config().vocab_size), mixed(model_->config().hidden_size);
  std::vector<int32_t> all(tokens.begin(), tokens.end());
  all.push_back(next_token);
  HF_RETURN_IF_ERROR(
      model_->Forward({.sequences = {{.tokens = all,
                                      .first_position = static_cast<int64_t>(tokens.size()),
                                      .running = running,
                                      .pages = pages,
                                      .log = log_.get()}},
                       .output_rows = {0}},
                      logits, mixed));
  return StateProof{.next_token = next_token, .row = Hash128Of(std::as_bytes(std::span(mixed)))};
}

void Persistence::TurnEnded(Conversation* c, std::shared_ptr<const TurnRecord> record) {
  const int64_t n = c->n_computed();
  if (n == 0) return;
  if (record != nullptr) records_[c->id()] = std::move(record);
  if (c->n_tokens() > n && cache_->PrepareWrite(c, n + 1).ok()) {
    const auto proof =
        ComputeProof(c->tokens().ids.first(n), c->tokens().ids[n], c->running(), c->page_buffers());
    if (proof.ok()) proofs_[c->id()][n] = *proof;
  }
  if (options_.autosave == Autosave::kTurn) {
    (void)SaveNow(*c);  // logged and counted; the reply is not worth less
  } else if (options_.autosave == Autosave::kIdle) {
    // Half the interval to wait for another turn, the other half to write.
    due_.try_emplace(c->id(),
                     Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options_.interval_s / 2)));
  }
}

Status Persistence::SaveNow(const Conversation& c) {
  if (c.n_computed() == 0) return FailedPreconditionError("nothing of it is computed yet");
  Done done = Save(MakeJob(c));
  Status status = done.receipt.status();
  TakeIn(std::move(done));
  return status;
}

Persistence::Job Persistence::MakeJob(const Conversation& c) {
  Job job{.snapshot = cache_->Snapshot(c), .proofs = proofs_[c.id()]};
  if (const auto it = records_.find(c.id()); it != records_.end()) job.record = it->second;
  std::vector<int64_t> positions = {c.n_computed()};
  for (const CheckpointSnapshot& checkpoint : job.snapshot.checkpoints) {
    positions.push_back(checkpoint.position);
  }
  std::vector<int64_t>& saved = saved_positions_[c.id()];
  for (int64_t position : saved) {
    // What lies behind a conversation that was cut is not part of this save.
    if (position > c.n_computed()) continue;
    if (std::ranges::find(positions, position) == positions.end()) job.dropped.push_back(position);
  }
  saved = positions;
  std::erase_if(proofs_[c.id()], [&](const auto& entry) {
    return std::ranges::find(positions, entry.first) == positions.end();
  });
  return job;
}

void Persistence::Enqueue(const Conversation& c) {
  due_.erase(c.id());
  Job job = MakeJob(c);
  {
    const std::lock_guard lock(mutex_);
    // A newer snapshot of a conversation that still waits replaces the older one.
    std::erase_if(jobs_, [&](const Job& other) { return other.snapshot.id == job.snapshot.id; });
    jobs_.push_back(std::move(job));
  }
  wake_.notify_all();
}

EvictAnswer Persistence::Evict(const Conversation& c) {
  const bool failed_before = [&] {
    const std::lock_guard lock(mutex_);
    return !stats_.last_error.empty();
  }();
  // A store that cannot be written to must not keep memory from those who need it.
  if (failed_before || c.n_computed() == 0) return EvictAnswer::kRelease;
  Enqueue(c);
  return EvictAnswer::kSaving;
}

void Persistence::Tick() {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (Done& d : done) TakeIn(std::move(d));
  const auto now = Clock::now();
  for (auto it = due_.begin(); it != due_.end();) {
    const auto next = std::next(it);
    if (it->second <= now) {
      const double wait_s = store_->SecondsUntilAllowed(cache_->trunk_layout().running_bytes() +
                                                        cache_->trunk_layout().page_bytes());
      if (wait_s > 0) {
        spdlog::info("store: --store-write-limit is reached; conversation {} is saved in {:.0f} s",
                     it->first, wait_s);
        it->second = now + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(wait_s));
      } else if (const Conversation* c = cache_->FindById(it->first)) {
        Enqueue(*c);
      } else {
        due_.erase(it);  // too short to keep, or dropped by its client
      }
    }
    it = next;
  }
}

Persistence::Done Persistence::Save(const Job& job) {
  const ConversationSnapshot& snapshot = job.snapshot;
  const TokenView tokens = snapshot.tokens.view();
  std::vector<int32_t> ids(tokens.ids.begin(), tokens.ids.end());
  if (snapshot.next_token) ids.push_back(snapshot.next_token->id);
  const int64_t n_live = tokens.size();
  const auto proof_at = [&](int64_t position) -> std::optional<StateProof> {
    const auto it = job.proofs.find(position);
    // A proof is of one next token; another branch has another.
    if (it == job.proofs.end() || position >= static_cast<int64_t>(ids.size()) ||
        it->second.next_token != ids[position]) {
      return std::nullopt;
    }
    return it->second;
  };
  SaveRequest request{.conversation = snapshot.id,
                      .forked_from = snapshot.forked_from,
                      .fork_position = snapshot.fork_position,
                      .tokens = ids,
                      .n_live = n_live,
                      .has_draft = snapshot.has_draft,
                      .drop_states = job.dropped};
  Done done{.id = snapshot.id,
            .tokens = TokenSequence(TokenView(std::span<const int32_t>(ids))),
            .record = job.record,
            .receipt = InternalError("not saved")};
  if (job.record != nullptr) {
    // A read that was cut short has fewer tokens than its messages.
    std::vector<StoredMessage>& messages = request.messages.emplace();
    for (const StoredMessage& message : job.record->messages) {
      if (message.token_end > static_cast<int64_t>(ids.size())) break;
      messages.push_back(message);
    }
    request.title_if_none = job.record->title;
  }
  const auto add_state = [&](int64_t position, StateKind kind, const BlockReader& running) {
    request.states.push_back({.position = position,
                              .kind = kind,
                              .has_draft = running.draft() != nullptr && snapshot.has_draft,
                              .proof = proof_at(position)});
    done.points.push_back(
        {.position = position,
         .kind = kind == StateKind::kLiveEnd ? PointKind::kLiveEnd : PointKind::kCheckpoint});
  };
  for (const CheckpointSnapshot& checkpoint : snapshot.checkpoints) {
    if (checkpoint.position < n_live) {
      add_state(checkpoint.position, KindOf(checkpoint.kind), checkpoint.running);
    }
  }
  add_state(n_live, StateKind::kLiveEnd, snapshot.running);
  request.source = [&](const PartRef& part,
                       const std::function<Status(std::span<const std::byte>)>& use) {
    const BlockReader& block =
        part.running ? RunningAt(snapshot, part.index) : snapshot.pages[part.index];
    Buffer* buffer = part.section == StateSection::kTrunk ? block.trunk() : block.draft();
    const StateLayout& layout =
        part.section == StateSection::kTrunk ? cache_->trunk_layout() : *cache_->draft_layout();
    const int64_t n_cells = n_live - part.index * layout.page_tokens();
    return model_->backend()->WithHostBytes(buffer, [&](std::span<std::byte> bytes) {
      if (part.running || n_cells >= layout.page_tokens()) return use(bytes);
      std::vector<std::byte> own(bytes.begin(), bytes.end());
      layout.ClearCells(own, static_cast<int>(n_cells));
      return use(own);
    });
  };
  done.receipt = store_->Save(request);
  return done;
}

void Persistence::TakeIn(Done done) {
  if (done.receipt.ok()) {
    cache_->RegisterDisk(done.id, done.tokens.view(), done.points);
    const auto it = records_.find(done.id);
    if (it != records_.end() && it->second == done.record) records_.erase(it);
  } else {
    saved_positions_.erase(done.id);
    spdlog::error("store: conversation {} was not saved: {}", done.id,
                  done.receipt.status().ToString());
  }
  const std::lock_guard lock(mutex_);
  if (done.receipt.ok()) {
    ++stats_.n_saves;
    stats_.bytes_written += done.receipt->bytes_written;
    stats_.last_error.clear();
    durable_[done.id] = done.receipt->durable_tokens;
  } else {
    ++stats_.n_failed_saves;
    stats_.last_error = done.receipt.status().ToString();
  }
}

void Persistence::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      working_ = true;
      lock.unlock();
      Done done = Save(job);
      lock.lock();
      done_.push_back(std::move(done));
    }
    working_ = false;
    drained_.notify_all();
  }
}

int64_t Persistence::Flush(std::chrono::milliseconds timeout) {
  for (const Conversation* c : cache_->List()) {
    if (c->n_computed() > 0 && !cache_->OnDisk(*c)) Enqueue(*c);
  }
  int64_t n_left;
  {
    std::unique_lock lock(mutex_);
    drained_.wait_for(lock, timeout, [&] { return jobs_.empty() && !working_; });
    n_left = static_cast<int64_t>(jobs_.size()) + (working_ ? 1 : 0);
  }
  Tick();
  return n_left;
}

// At its end it is the stored conversation; a shorter part of it is the beginning of another.
void Persistence::GiveId(const StoredPrefix& prefix, RestoredConversation* restored) {
  restored->forked_from = prefix.conversation;
  if (prefix.kind != StateKind::kLiveEnd) return;
  if (Conversation* const shorter = cache_->FindById(prefix.conversation)) {
    // What is in RAM of it goes on in the restored one, or has become another conversation.
    const int64_t n = shorter->n_computed();
    if (shorter->bound() || n > prefix.position ||
        FirstDifference(shorter->tokens(), restored->tokens) < n) {
      return;
    }
    restored->pinned = shorter->pinned();
    for (const Checkpoint& checkpoint : shorter->checkpoints()) {
      if (checkpoint.position < prefix.position && (!restored->has_draft || shorter->has_draft())) {
        restored->checkpoints.push_back(checkpoint);
      }
    }
    cache_->Discard(shorter);
  }
  restored->id = prefix.conversation;
  restored->forked_from.clear();
}

void Persistence::Renamed(const std::string& from, const std::string& to) {
  const auto move = [&](auto* map) {
    map->erase(to);
    if (auto node = map->extract(from)) {
      node.key() = to;
      map->insert(std::move(node));
    }
  };
  move(&due_);
  move(&proofs_);
  move(&saved_positions_);
  move(&records_);
  const std::lock_guard lock(mutex_);
  durable_.erase(to);  // what is on disk is there under the old id
}

Result<RestoredConversation> Persistence::Load(const StoredPrefix& prefix, TokenView prompt,
                                               RestoreReport* report) {
  const int64_t n = prefix.position;
  const bool draft = prefix.has_draft && cache_->draft_layout() != nullptr;
  RestoredConversation restored{.tokens = prompt.Prefix(n),
                                .next_token = prompt.key(n),
                                .pages = cache_->SharedPages(prompt.Prefix(n), draft),
                                .has_draft = draft};
  const int64_t first_page = static_cast<int64_t>(restored.pages.size());
  while (static_cast<int64_t>(restored.pages.size()) < cache_->trunk_layout().PagesFor(n)) {
    HF_ASSIGN_OR_RETURN(BlockPtr page, cache_->AllocatePage(draft));
    restored.pages.push_back(std::move(page));
  }
  HF_ASSIGN_OR_RETURN(restored.running, cache_->AllocateRunning(draft));
  const auto buffer_of = [&](const PartRef& part) {
    const BlockPtr& block = part.running ? restored.running : restored.pages[part.index];
    return part.section == StateSection::kTrunk ? block->trunk.get() : block->draft.get();
  };
  const auto sink =
      [&](std::span<const PartRef> parts,
          const std::function<Status(std::span<const std::span<std::byte>>)>& fill) -> Status {
    std::vector<Buffer*> buffers;
    for (const PartRef& part : parts) buffers.push_back(buffer_of(part));
    std::vector<std::span<std::byte>> views;
    return WithAllHostBytes(model_->backend(), buffers, &views, fill);
  };
  HF_ASSIGN_OR_RETURN(
      const LoadReport load,
      store_->Load(prefix, {.sink = sink, .first_page = first_page, .draft = draft}));
  restored.has_draft = load.draft_loaded;
  report->note = load.note;
  const std::lock_guard lock(mutex_);
  stats_.bytes_read += load.bytes_read;
  return restored;
}

// The row of the next token, computed on trial, must be the one that was stored.
Status Persistence::Check(const StoredPrefix& prefix, const RestoredConversation& restored) {
  if (!prefix.proof) return OkStatus();
  std::vector<Buffer*> pages;
  for (const BlockPtr& page : restored.pages) pages.push_back(page->trunk.get());
  BlockPtr extra;  // when the next token begins a page
  if (prefix.position % cache_->trunk_layout().page_tokens() == 0) {
    HF_ASSIGN_OR_RETURN(extra, cache_->AllocatePage(false));
    pages.push_back(extra->trunk.get());
  }
  HF_ASSIGN_OR_RETURN(const StateProof proof,
                      ComputeProof(restored.tokens.ids, prefix.proof->next_token,
                                   restored.running->trunk.get(), pages));
  if (proof == *prefix.proof) return OkStatus();
  return DataLossError(fmt::format(
      "the state of conversation {} at token {} does not give the row that was stored with it",
      prefix.conversation, prefix.position));
}

std::optional<RestoreReport> Persistence::Restore(TokenView prompt, int64_t beyond,
                                                  const std::string& named) {
  const auto start = Clock::now();
  const auto found = store_->Find(prompt.ids);
  if (!found.ok()) {
    spdlog::error("store: {}", found.status().ToString());
    return std::nullopt;
  }
  if (!found->prefix || found->prefix->position <= beyond) return std::nullopt;
  StoredPrefix prefix = *found->prefix;
  if (!named.empty() && named != prefix.conversation) {
    const auto theirs = store_->FindIn(named);
    if (theirs.ok() && theirs->state_id == prefix.state_id) {
      prefix.conversation = named;
      prefix.kind = StateKind::kLiveEnd;
    }
  }
  RestoreReport report{.position = prefix.position};
  Result<RestoredConversation> restored = Load(prefix, prompt, &report);
  Status status = restored.status();
  if (status.ok()) {
    status = Check(prefix, *restored);
    if (status.code() == StatusCode::kDataLoss) {
      const Status put_aside = store_->Quarantine(prefix, status.message());
      if (!put_aside.ok()) spdlog::error("store: {}", put_aside.ToString());
      const std::lock_guard lock(mutex_);
      ++stats_.n_failed_proofs;
    }
  }
  if (status.ok()) {
    GiveId(prefix, &*restored);
    if (const auto kind = CheckpointKindOf(prefix.kind)) {
      restored->checkpoints.push_back(
          {.position = prefix.position, .kind = *kind, .running = restored->running});
    }
    const Result<Conversation*> adopted = cache_->Adopt(*std::move(restored));
    status = adopted.status();
    if (status.ok() && prefix.proof) proofs_[(*adopted)->id()][prefix.position] = *prefix.proof;
  }
  if (!status.ok()) {
    spdlog::error("store: conversation {} was not restored and is read again: {}",
                  prefix.conversation, status.ToString());
    return std::nullopt;
  }
  report.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const std::lock_guard lock(mutex_);
  ++stats_.n_restores;
  return report;
}

int64_t Persistence::durable_tokens(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = durable_.find(id);
  return it == durable_.end() ? 0 : it->second;
}

PersistenceStats Persistence::stats() const {
  const std::lock_guard lock(mutex_);
  PersistenceStats stats = stats_;
  stats.n_pending = static_cast<int64_t>(jobs_.size()) + (working_ ? 1 : 0);
  return stats;
}

}  // namespace holdfast
