#include "engine/persistence.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

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

const BlockReader& RunningAt(const ConversationSnapshot& snapshot, int64_t position) {
  for (const CheckpointSnapshot& checkpoint : snapshot.checkpoints) {
    if (checkpoint.position == position) return checkpoint.running;
  }
  return snapshot.running;
}

bool IsKept(const ConversationSnapshot& snapshot, int64_t position) {
  return position == snapshot.tokens.size() ||
         std::ranges::find(snapshot.checkpoints, position, &CheckpointSnapshot::position) !=
             snapshot.checkpoints.end();
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
                              .file_system = options.file_system,
                              .disk_budget_bytes = options.disk_budget_bytes,
                              .write_limit_bytes_per_hour = options.write_limit_bytes_per_hour},
                             std::nullopt));
  p->identity_ = IdentifyModel(p->store_.get(), model->file(), model->mtp_file(), model->config());
  HF_RETURN_IF_ERROR(p->store_->UseKeys(MakeStoreKeys(p->identity_, cache->trunk_layout(),
                                                      cache->draft_layout(), options.numerics_key,
                                                      model->config().vocab_size, options.ctx)));
  for (const std::string& notice : p->store_->notices()) spdlog::warn("store: {}", notice);
  HF_ASSIGN_OR_RETURN(p->prover_, StateProver::Create(model));
  p->restorer_ = std::make_unique<Restorer>(
      p->store_.get(), model, cache, &*p->prover_,
      [raw = p.get()](const Conversation& c, const StoredPrefix& prefix) {
        if (prefix.proof) raw->proofs_[c.id()][prefix.position] = *prefix.proof;
      },
      options.wake, [raw = p.get()] { raw->last_progress_ = Clock::now(); });
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
  for (const Done& done : done_) {
    for (const OnSaved& on_saved : done.on_saved) on_saved(done.receipt.status());
  }
}

void Persistence::RecordProof(const Conversation& c, int64_t position, int32_t next_token,
                              std::span<const float> mixed) {
  proofs_[c.id()][position] = {.next_token = next_token, .row = Hash128Of(std::as_bytes(mixed))};
}

bool Persistence::TurnEnded(Conversation* c, std::shared_ptr<const TurnRecord> record,
                            OnSaved on_saved) {
  const int64_t n = c->n_computed();
  if (n == 0) return false;
  if (record != nullptr) records_[c->id()] = std::move(record);
  if (c->n_tokens() > n && cache_->PrepareWrite(c, n + 1).ok()) {
    const auto proof = prover_->Prove(c->tokens().ids.first(n), c->tokens().ids[n], c->running(),
                                      c->page_buffers());
    if (proof.ok()) proofs_[c->id()][n] = *proof;
  }
  if (options_.autosave == Autosave::kTurn) {
    Enqueue(*c, std::move(on_saved));
    return true;
  }
  if (options_.autosave == Autosave::kIdle) {
    // Half the interval to wait for another turn, the other half to write.
    due_.try_emplace(c->id(),
                     Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options_.interval_s / 2)));
  }
  return false;
}

void Persistence::Save(const Conversation& c, OnSaved on_saved) {
  if (c.n_computed() > 0) {
    Enqueue(c, std::move(on_saved));
  } else {
    on_saved(FailedPreconditionError("nothing of it is computed yet"));
  }
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

void Persistence::Enqueue(const Conversation& c, OnSaved on_saved) {
  due_.erase(c.id());
  Job job = MakeJob(c);
  if (on_saved) job.on_saved.push_back(std::move(on_saved));
  {
    const std::lock_guard lock(mutex_);
    // A newer snapshot of a conversation that still waits replaces the older one.
    std::erase_if(jobs_, [&](Job& other) {
      if (other.snapshot.id != job.snapshot.id) return false;
      std::ranges::move(other.on_saved, std::back_inserter(job.on_saved));
      // What that one would have dropped is still on disk.
      for (int64_t position : other.dropped) {
        if (!IsKept(job.snapshot, position)) job.dropped.push_back(position);
      }
      return true;
    });
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

void Persistence::TakeInAll() {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (Done& d : done) TakeIn(std::move(d));
}

void Persistence::Tick() {
  TakeInAll();
  restorer_->Tick();
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

Persistence::Done Persistence::Write(Job job) {
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
            .on_saved = std::move(job.on_saved),
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
    last_progress_ = Clock::now();
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
  {
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
  for (const OnSaved& on_saved : done.on_saved) on_saved(done.receipt.status());
}

void Persistence::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    working_ = true;
    lock.unlock();
    Done done = Write(std::move(job));
    lock.lock();
    done_.push_back(std::move(done));
    working_ = false;
    drained_.notify_all();
    if (!options_.wake) continue;
    lock.unlock();
    options_.wake();
    lock.lock();
  }
}

int64_t Persistence::Flush(std::chrono::milliseconds timeout) {
  for (const Conversation* c : cache_->List()) {
    if (c->n_computed() > 0 && !cache_->OnDisk(*c)) Enqueue(*c);
  }
  const int64_t n_left = WaitForSaves(timeout);
  TakeInAll();
  return n_left;
}

int64_t Persistence::WaitForSaves(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, timeout, [&] { return jobs_.empty() && !working_; });
  return static_cast<int64_t>(jobs_.size()) + (working_ ? 1 : 0);
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

int64_t Persistence::durable_tokens(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = durable_.find(id);
  return it == durable_.end() ? 0 : it->second;
}

PersistenceStats Persistence::stats() const {
  const RestorerStats restored = restorer_->stats();
  const std::lock_guard lock(mutex_);
  PersistenceStats stats = stats_;
  stats.n_pending = static_cast<int64_t>(jobs_.size()) + (working_ ? 1 : 0);
  stats.n_restores = restored.n_restores;
  stats.n_failed_proofs = restored.n_failed_proofs;
  stats.bytes_read = restored.bytes_read;
  stats.n_restoring = restored.n_running;
  return stats;
}

}  // namespace holdfast
