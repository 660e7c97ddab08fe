#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "base/thread_activity.h"
#include "engine/plan_input.h"
#include "engine/reuse.h"
#include "model/numerics.h"
#include "ops/profile/profiling_backend.h"
#include "token/placeholder_vocabulary.h"
#include "token/vocabulary.h"

namespace holdfast {
namespace {

constexpr int kMaxSlots = 256;
constexpr auto kStallPause = std::chrono::milliseconds(2);
constexpr auto kIdleCheck = std::chrono::seconds(1);
constexpr auto kStatusPatience = std::chrono::milliseconds(200);
constexpr auto kLastFlush = std::chrono::seconds(30);

}  // namespace

Status EngineOptions::Validate() const {
  if (model_path.empty()) return InvalidArgumentError("no model file was named (--model)");
  if (ctx < 0) return InvalidArgumentError(fmt::format("ctx is {}, wanted 0 or more", ctx));
  if (n_slots < 1 || n_slots > kMaxSlots) {
    return InvalidArgumentError(fmt::format("slots is {}, wanted 1 to {}", n_slots, kMaxSlots));
  }
  if (!(step_target_ms >= 1 && step_target_ms <= 60000)) {
    return InvalidArgumentError(
        fmt::format("step_target_ms is {}, wanted 1 to 60000", step_target_ms));
  }
  if (max_rows < n_slots || max_rows > 8192) {
    return InvalidArgumentError(
        fmt::format("rows of a step are {}, wanted slots ({}) to 8192", max_rows, n_slots));
  }
  if (max_drafts < -1 || max_drafts > DraftPolicy::kMaxDepth) {
    return InvalidArgumentError(fmt::format("draft is {}, wanted -1 (auto), 0 (off) to {}",
                                            max_drafts, DraftPolicy::kMaxDepth));
  }
  if (draft_vocab < 0) {
    return InvalidArgumentError(
        fmt::format("draft_vocab is {}, wanted 0 (all) or more", draft_vocab));
  }
  if (max_queue < 1)
    return InvalidArgumentError(fmt::format("queue is {}, wanted 1 or more", max_queue));
  return OkStatus();
}

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                               const Progress& progress) {
  HF_RETURN_IF_ERROR(options.Validate());
  std::unique_ptr<Engine> engine(new Engine(options));
  HF_RETURN_IF_ERROR(engine->Load(progress ? progress : Progress([](std::string_view, double) {})));
  engine->thread_ = std::thread([e = engine.get()] { e->Run(); });
  return engine;
}

// Weights that do not fit beside the rest would only push each other out.
Status Engine::WarmUp(const Progress& progress) {
  if (!options_.warm) return OkStatus();
  const uint64_t n_bytes = plan_.weights.mapped_bytes;
  const uint64_t available = plan_.available_bytes.value_or(0);
  if (n_bytes > available) {
    plan_.notes.push_back(fmt::format(
        "--warm: the weights are not read in, {} MiB of them and {} MiB of memory available",
        n_bytes >> 20, available >> 20));
    return OkStatus();
  }
  return model_->ReadIn(/*table=*/plan_.weights.table_bytes == 0, [&](double fraction) {
    progress("reading the weights", 0.8 + 0.2 * fraction);
  });
}

Status Engine::VerifyWeights(const Progress& progress) {
  if (!options_.verify_weights) return OkStatus();
  HF_RETURN_IF_ERROR(
      model_->VerifyWeights([&](double fraction) { progress("checking the weights", fraction); }));
  const ExpertFile* const checksums = model_->expert_file();
  plan_.notes.push_back(
      checksums != nullptr
          ? "weights: all of them have the checksums of " + checksums->file().name()
          : "weights: every byte of them can be read; there are no checksums to compare them with "
            "(holdfast prepare makes them)");
  return OkStatus();
}

Status Engine::Load(const Progress& progress) {
  progress("opening the model", 0.0);
  HF_ASSIGN_OR_RETURN(backend_, CpuBackend::Create({.n_threads = options_.n_threads,
                                                    .kernels = options_.kernels,
                                                    .activations = options_.activations}));
  Backend* backend = backend_.get();
  if (options_.profile) {
    profiling_ = std::make_unique<ProfilingBackend>(backend, options_.profile);
    backend = profiling_.get();
  }
  HF_ASSIGN_OR_RETURN(model_, Model::Load(options_.model_path,
                                          {.mtp_path = options_.mtp_path,
                                           .kv_format = options_.kv_format,
                                           .max_rows = options_.max_rows,
                                           .draft_norm_per_stream = options_.draft_norm_per_stream,
                                           .draft_vocab = options_.draft_vocab},
                                          backend));
  progress("reading the vocabulary", 0.5);
  HF_ASSIGN_OR_RETURN(VocabularyData vocabulary, LoadVocabulary());
  std::string chat_template = vocabulary.chat_template;
  HF_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Create(std::move(vocabulary)));
  if (tokenizer_->vocab_size() > model_->config().vocab_size) {
    return InvalidArgumentError(
        fmt::format("{}: {} tokens in the vocabulary, but token_embd has {} rows",
                    options_.model_path, tokenizer_->vocab_size(), model_->config().vocab_size));
  }
  HF_ASSIGN_OR_RETURN(chat_template_, ChatTemplate::Create(std::move(chat_template)));

  progress("planning memory", 0.8);
  HF_RETURN_IF_ERROR(OpenExpertFile(options_.expert_memory, model_.get()));
  const StateLayout& layout = model_->layout();
  const HostMemory host = ReadHostMemory();
  std::vector<std::string> notes = std::move(plan_.notes);
  HF_ASSIGN_OR_RETURN(plan_, MakeMemoryPlan(PlanInput(options_, *model_, host)));
  plan_.notes.insert(plan_.notes.begin(), notes.begin(), notes.end());
  if (plan_.weights.arena_bytes > 0) {
    HF_RETURN_IF_ERROR(model_->StreamExperts(
        {.arena_bytes = plan_.weights.arena_bytes, .reader = options_.expert_memory.reader}));
    plan_.notes.push_back("experts: " + DescribeExperts(model_->expert_tier()->stats()));
  }
  if (plan_.weights.ngram_bytes > 0) {
    HF_RETURN_IF_ERROR(model_->StreamNgramRows(
        {.memory_bytes = plan_.weights.ngram_bytes, .reader = options_.ngram_memory.reader}));
    plan_.notes.push_back("n-gram rows: " + DescribeNgramRows(model_->ngram_tier()->stats()));
  }
  HF_RETURN_IF_ERROR(VerifyWeights(progress));
  if (plan_.weights.repacked_bytes > 0) {
    HF_RETURN_IF_ERROR(model_->RepackWeights(
        [&](double fraction) { progress("repacking weights", 0.8 + 0.2 * fraction); }));
  }
  HF_RETURN_IF_ERROR(WarmUp(progress));
  if (plan_.ctx > model_->config().context_length) {
    plan_.notes.push_back(
        fmt::format("context of {} tokens is beyond the {} the model was trained on", plan_.ctx,
                    model_->config().context_length));
  }
  guard_ = std::make_unique<MemoryGuard>(
      MemoryGuard::Options{.min_free_bytes = options_.min_free_bytes,
                           .memory_limit_bytes = options_.memory_limit_bytes});
  HF_ASSIGN_OR_RETURN(
      cache_,
      StateCache::Create({.backend = backend,
                          .trunk = &layout,
                          .draft = options_.drafts_by_head() ? model_->draft_layout() : nullptr,
                          .params = {.cache_ram_bytes = plan_.cache_bytes,
                                     .work_bytes = plan_.work_bytes,
                                     .cache_min_free_bytes = options_.min_free_bytes,
                                     .min_write_tokens = options_.min_write_tokens,
                                     .min_read_tokens = options_.min_read_tokens},
                          .policy = ChooseCheckpointPolicy(layout, plan_.ctx).policy,
                          .consent = [this](size_t bytes) { return guard_->Consent(bytes); }}));
  relief_ = std::make_unique<MemoryRelief>(
      MemoryRelief::Sources{
          .shortage = [this] { return guard_->Shortage(); },
          .pressure = [] { return ReadMemoryPressure(); },
          .kept_bytes = [this] { return cache_->stats().parked_bytes; },
          .now_s =
              [] {
                const auto now = std::chrono::steady_clock::now();
                return std::chrono::duration<double>(now.time_since_epoch()).count();
              }},
      [this](GiveBack level, size_t bytes) { return cache_->Release(level, bytes); });
  if (!options_.store_dir.empty()) {
    progress("opening the store", 0.9);
    auto persistence =
        Persistence::Create({.dir = options_.store_dir,
                             .autosave = options_.autosave,
                             .interval_s = options_.autosave_interval_s,
                             .disk_budget_bytes = options_.cache_disk_bytes,
                             .write_limit_bytes_per_hour = options_.store_write_limit_bytes,
                             .numerics_key = NumericsKey(options_.activations, {}),
                             .ctx = plan_.ctx,
                             .file_system = options_.file_system,
                             .wake =
                                 [this] {
                                   {
                                     const std::lock_guard lock(mutex_);
                                     attention_ = true;
                                   }
                                   wake_.notify_all();
                                 }},
                            model_.get(), cache_.get());
    if (!persistence.ok() && options_.store_required) return persistence.status();
    if (persistence.ok()) {
      persistence_ = *std::move(persistence);
    } else {
      plan_.notes.push_back("nothing is kept on disk: " + persistence.status().message());
    }
  }
  if (persistence_) {
    cache_->set_evict_hook([this](const Conversation& c) { return persistence_->Evict(c); });
    cache_->set_rename_hook([this](const std::string& from, const std::string& to) {
      persistence_->Renamed(from, to);
    });
    if (ExpertTier* const tier = model_->expert_tier()) {
      expert_profile_ = std::make_unique<ExpertProfileFile>(
          options_.file_system, options_.store_dir, persistence_->identity(), tier);
      const std::string note = expert_profile_->Load();
      if (!note.empty()) plan_.notes.push_back(note);
    }
  }
  if (options_.draft_source == DraftSource::kMtp && model_->draft_layout() == nullptr) {
    plan_.notes.push_back("no guesses: the model has no draft head (--draft-source mtp)");
  }
  scheduler_ =
      std::make_unique<Scheduler>(model_.get(), cache_.get(), tokenizer_.get(), persistence_.get(),
                                  SchedulerOptions{.ctx = plan_.ctx,
                                                   .n_slots = plan_.n_slots,
                                                   .step_target_ms = options_.step_target_ms,
                                                   .max_drafts = options_.max_drafts,
                                                   .draft_source = options_.draft_source,
                                                   .in_step = options_.in_step});
  progress("ready", 1.0);
  return OkStatus();
}

Result<VocabularyData> Engine::LoadVocabulary() {
  Result<VocabularyData> vocabulary = ReadVocabulary(model_->file());
  const int64_t n = model_->config().vocab_size;
  if (vocabulary.status().code() == StatusCode::kNotFound && n >= 256) {
    plan_.notes.push_back(vocabulary.status().message() + "; ids stand for themselves");
    return PlaceholderVocabulary(n);
  }
  return vocabulary;
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  scheduler_.reset();
  expert_profile_.reset();
  persistence_.reset();  // its threads wake this one
}

Status Engine::CheckRequest(const GenerateRequest& request) const {
  if (request.prompt.empty()) return InvalidArgumentError("the prompt has no tokens");
  HF_RETURN_IF_ERROR(request.sampling.Validate(vocab_size()));
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= vocab_size()) {
      return InvalidArgumentError(fmt::format("prompt token {} at position {}, ids go from 0 to {}",
                                              request.prompt[i], i, vocab_size() - 1));
    }
  }
  const int64_t n_prompt = static_cast<int64_t>(request.prompt.size());
  if (n_prompt >= plan_.ctx) {
    return OutOfRangeError(fmt::format(
        "the prompt has {} tokens, the context holds {} including the reply", n_prompt, plan_.ctx));
  }
  if (request.max_tokens < -1) {
    return InvalidArgumentError(
        fmt::format("max_tokens is {}, wanted -1 (no limit) or more", request.max_tokens));
  }
  if (request.n_top_logprobs > vocab_size()) {
    return InvalidArgumentError(fmt::format("{} logprobs asked for, the vocabulary has {} tokens",
                                            request.n_top_logprobs, vocab_size()));
  }
  return OkStatus();
}

Result<RequestId> Engine::Submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) {
  HF_RETURN_IF_ERROR(CheckRequest(request));
  RequestId id;
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || stop_) return UnavailableError("the engine is shutting down");
    const int64_t n_waiting = n_waiting_ + static_cast<int64_t>(arrivals_.size());
    if (n_waiting >= options_.max_queue) {
      return UnavailableError(
          fmt::format("{} requests are waiting, more are not taken", n_waiting));
    }
    id = next_id_++;
    idle_ = false;
    arrivals_.push_back({id, std::move(request), std::move(sink)});
  }
  wake_.notify_all();
  return id;
}

void Engine::Cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.push_back(id);
  }
  wake_.notify_all();
}

void Engine::RunBetweenSteps(const std::function<void(Scheduler&, StateCache&)>& fn) {
  const Status status = BetweenSteps(fn);
  if (!status.ok()) spdlog::warn("between two steps: {}", status.ToString());
}

Status Engine::BetweenSteps(const std::function<void(Scheduler&, StateCache&)>& fn) {
  // Whoever comes first takes it: the engine's thread to run it, or this one to give it up.
  struct Task {
    std::atomic<bool> taken{false};
    std::promise<void> done;
  };
  const auto task = std::make_shared<Task>();
  std::future<void> done = task->done.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return UnavailableError("the engine is shutting down");
    tasks_.push_back([this, task, &fn] {
      if (task->taken.exchange(true)) return;
      fn(*scheduler_, *cache_);
      task->done.set_value();
    });
  }
  wake_.notify_all();
  const bool late = done.wait_for(options_.patience) != std::future_status::ready;
  if (late && !task->taken.exchange(true)) {
    return DeadlineExceededError(
        fmt::format("the engine's thread has been in one step for more than {} s",
                    options_.patience.count() / 1000.0));
  }
  done.wait();
  return OkStatus();
}

Status Engine::SaveConversation(const std::string& id) {
  if (!persistence_) return FailedPreconditionError("nothing is kept on disk (--store off)");
  const auto saved = std::make_shared<std::promise<Status>>();
  std::future<Status> status = saved->get_future();
  HF_RETURN_IF_ERROR(BetweenSteps([&](Scheduler&, StateCache& cache) {
    if (const Conversation* c = cache.FindById(id)) {
      persistence_->Save(*c, [saved](const Status& s) { saved->set_value(s); });
    } else {
      saved->set_value(NotFoundError(fmt::format("there is no conversation {} in memory", id)));
    }
  }));
  if (status.wait_for(options_.patience) == std::future_status::ready) return status.get();
  return DeadlineExceededError(fmt::format("conversation {} is still being saved after {} s", id,
                                           options_.patience.count() / 1000.0));
}

ReuseInfo Engine::Explain(const std::vector<TokenId>& prompt) {
  ReuseInfo info;
  RunBetweenSteps([&](Scheduler&, StateCache& cache) {
    info = ExplainMatch(cache.Find(TokenView(prompt)), static_cast<int64_t>(prompt.size()),
                        *tokenizer_);
  });
  if (!persistence_) return info;
  const auto stored = persistence_->store()->Find(prompt);
  if (!stored.ok() || !stored->prefix || stored->prefix->position <= info.tokens_reused)
    return info;
  info.source = ReuseSource::kDisk;
  info.tokens_reused = stored->prefix->position;
  info.tokens_read = static_cast<int64_t>(prompt.size()) - info.tokens_reused;
  info.tokens_known = std::max({info.tokens_known, stored->matched_tokens, info.tokens_reused});
  info.reason = stored->reason;
  info.limit = {};
  info.conversation = stored->prefix->conversation;
  return info;
}

EngineStatus Engine::status() {
  EngineStatus status{.cache = cache_->stats(), .host = guard_->last(), .relief = relief_->stats()};
  if (persistence_) status.store = persistence_->stats();
  if (model_->expert_tier() != nullptr) status.experts = model_->expert_tier()->stats();
  if (model_->ngram_tier() != nullptr) status.ngram = model_->ngram_tier()->stats();
  const auto now = std::make_shared<std::promise<SchedulerStatus>>();
  std::future<SchedulerStatus> fresh = now->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return status;
    tasks_.push_back([this, now] { now->set_value(scheduler_->status()); });
  }
  wake_.notify_all();
  if (fresh.wait_for(kStatusPatience) == std::future_status::ready) {
    status.scheduler = fresh.get();
    return status;
  }
  const std::lock_guard lock(mutex_);
  status.scheduler = before_step_;
  const std::chrono::duration<double, std::milli> age =
      std::chrono::steady_clock::now() - step_began_;
  status.scheduler_age_ms = age.count();
  return status;
}

void Engine::Shutdown(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  drained_.wait_for(lock, timeout, [&] { return idle_; });
  lock.unlock();
  const Status status = BetweenSteps([&](Scheduler& scheduler, StateCache&) {
    scheduler.CancelAll(CancelledError("the server is shutting down"));
    if (persistence_) {
      const int64_t n_left = persistence_->Flush(timeout);
      if (n_left > 0) spdlog::warn("store: {} conversations were not saved in time", n_left);
    }
    scheduler.ReportCommitted(/*all=*/true);
  });
  if (!status.ok()) spdlog::warn("shutdown: {}", status.ToString());
  if (expert_profile_) expert_profile_->Save();
}

std::chrono::milliseconds Engine::round_age() const {
  const std::lock_guard lock(mutex_);
  if (!round_began_) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               *round_began_);
}

uint64_t Engine::weight_bytes_read() const {
  uint64_t bytes = model_->ngram_tier() != nullptr ? model_->ngram_tier()->stats().bytes_read : 0;
  if (model_->expert_tier() == nullptr) return bytes;
  for (const auto& layer : model_->expert_tier()->stats().layers) bytes += layer.bytes_read;
  return bytes;
}

int64_t Engine::SaveWithoutThread(const Status& why, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  // Stuck elsewhere than in a computation, it may hold or half change anything.
  if (!scheduler_->TakeOver()) return persistence_ ? persistence_->WaitForSaves(timeout) : 0;
  scheduler_->Abandon(why);
  return persistence_ ? persistence_->Flush(timeout) : 0;
}

void Engine::Run() {
  ThreadActivity activity("engine");
  ExpertTier* const tier = model_->expert_tier();
  bool idle = true;  // as of the last step
  for (;;) {
    activity.Set("between two steps");
    std::vector<Arrival> arrivals;
    std::vector<RequestId> cancels;
    std::vector<std::function<void()>> tasks;
    bool stop;
    {
      const std::lock_guard lock(mutex_);
      arrivals.swap(arrivals_);
      cancels.swap(cancels_);
      tasks.swap(tasks_);
      attention_ = false;
      stop = stop_;
      round_began_ = std::chrono::steady_clock::now();
    }
    for (Arrival& a : arrivals) {
      scheduler_->Add(a.id, std::move(a.request), std::move(a.sink));
    }
    for (RequestId id : cancels)
      scheduler_->Cancel(id, CancelledError("the request was cancelled"));
    for (const auto& task : tasks) task();
    if (stop) {
      scheduler_->CancelAll(CancelledError("the engine is shutting down"));
      if (persistence_) persistence_->Flush(kLastFlush);
      scheduler_->ReportCommitted(/*all=*/true);
      return;
    }
    relief_->Tick();
    if (persistence_) persistence_->Tick();
    if (expert_profile_) expert_profile_->Tick();
    const bool reads_in = tier != nullptr && tier->ReadIn(idle && arrivals.empty());
    {
      const std::lock_guard lock(mutex_);
      before_step_ = scheduler_->status();
      step_began_ = std::chrono::steady_clock::now();
    }
    activity.Set("in a step");
    const StepResult result = scheduler_->Step();
    idle = result == StepResult::kIdle;

    std::unique_lock lock(mutex_);
    n_waiting_ = scheduler_->n_waiting();
    round_began_.reset();
    activity.Set("waiting for work");
    const auto called = [&] {
      return stop_ || attention_ || !arrivals_.empty() || !cancels_.empty() || !tasks_.empty();
    };
    if (result == StepResult::kStalled) {
      wake_.wait_for(lock, kStallPause, called);
    } else if (idle && arrivals_.empty()) {
      idle_ = true;
      drained_.notify_all();
      wake_.wait_for(lock, reads_in ? std::chrono::milliseconds(kStallPause) : kIdleCheck, called);
    }
  }
}

}  // namespace holdfast
