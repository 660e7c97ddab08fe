#ifndef HOLDFAST_ENGINE_ENGINE_H_
#define HOLDFAST_ENGINE_ENGINE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/host_memory.h"
#include "base/memory_guard.h"
#include "engine/expert_memory.h"
#include "engine/expert_profile_file.h"
#include "engine/generator.h"
#include "engine/memory_plan.h"
#include "engine/memory_relief.h"
#include "engine/persistence.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/profile/profile.h"
#include "state/state_cache.h"
#include "store/file_system.h"
#include "token/chat_template.h"
#include "token/tokenizer.h"

namespace holdfast {

struct EngineOptions {
  std::string model_path;
  std::string mtp_path;  // empty: none, or what the trunk file has
  int64_t ctx = 0;       // 0: the trained length, or what memory allows
  int n_threads = 0;     // 0: every CPU this process may use
  std::string kernels = "auto";
  KvFormat kv_format = KvFormat::kInt8;
  ActivationFormat activations = ActivationFormat::kAuto;
  int n_slots = 4;
  double step_target_ms = 100.0;
  int max_drafts = -1;  // --draft: -1 auto, 0 off, else always that many guesses
  DraftSource draft_source = DraftSource::kAuto;  // --draft-source
  bool draft_norm_per_stream = false;             // --draft-norm: of the draft head's hidden rows
  int64_t draft_vocab = 0;                  // --draft-vocab: the head guesses ids below it; 0: all
  int64_t max_rows = 512;                   // rows of one step
  int64_t max_queue = 256;                  // waiting requests; more are refused
  std::optional<uint64_t> cache_ram_bytes;  // none: auto
  uint64_t min_free_bytes = uint64_t{1} << 30;
  std::optional<uint64_t> memory_limit_bytes;
  ExpertMemory expert_memory;             // --expert-memory, --expert-reader, --expert-file
  NgramMemory ngram_memory;               // --ngram-memory
  RepackMode repack = RepackMode::kAuto;  // --repack
  int64_t min_write_tokens = 0, min_read_tokens = 0;
  std::string store_dir;       // empty: nothing is kept on disk
  bool store_required = true;  // false: without it when it cannot be opened, which is said
  Autosave autosave = Autosave::kIdle;
  double autosave_interval_s = 10.0;
  uint64_t cache_disk_bytes = 0;                      // 0: no limit
  uint64_t store_write_limit_bytes = 20'000'000'000;  // an hour; 0: no limit
  FileSystem* file_system = PosixFileSystem();        // of the store
  // For how long a call waits for the end of a step or of a save.
  std::chrono::milliseconds patience = std::chrono::minutes(2);
  bool verify_weights = false;       // reads all weights before the first request, and compares
  bool warm = false;                 // reads the mapped weights in before the first request
  std::shared_ptr<Profile> profile;  // null: steps are not measured
  std::function<void()> in_step;     // of tests: runs as part of every forward pass; may be null

  // Conversations carry state of the draft head.
  bool drafts_by_head() const { return max_drafts != 0 && draft_source != DraftSource::kLookup; }
  // OK, or kInvalidArgument naming the field, its value and the allowed range.
  Status Validate() const;
};

struct EngineStatus {
  SchedulerStatus scheduler;
  // 0: of now. More: of this long ago, before the step that is still running.
  double scheduler_age_ms = 0.0;
  StateCacheStats cache;
  PersistenceStats store;
  HostMemory host;
  MemoryReliefStats relief;
  std::optional<ExpertTierStats> experts;  // none: they are used where they are mapped
  std::optional<NgramTierStats> ngram;     // the same for rows of the n-gram table
};

// A loaded model that answers requests: one thread runs all steps, everything else only queues.
class Engine : public Generator {
 public:
  using Progress = std::function<void(std::string_view phase, double fraction)>;

  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                const Progress& progress = nullptr);
  // Running requests end with kCancelled.
  ~Engine() override;

  Result<RequestId> Submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override;
  void Cancel(RequestId id) override;
  int64_t context_length() const override { return plan_.ctx; }
  int64_t vocab_size() const override { return model_->config().vocab_size; }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate& chat_template() const { return *chat_template_; }
  const ModelConfig& config() const { return model_->config(); }
  const GgufFile& file() const { return model_->file(); }
  const MemoryPlan& plan() const { return plan_; }
  const CheckpointPolicy& checkpoint_policy() const { return cache_->policy(); }
  const CpuBackend& backend() const { return *backend_; }
  // Null when nothing is kept on disk. Any thread.
  Persistence* persistence() const { return persistence_.get(); }

  // Makes a conversation in RAM durable now. kNotFound, kFailedPrecondition without a store,
  // kDeadlineExceeded when it takes longer than the patience (it is saved nevertheless).
  Status SaveConversation(const std::string& id);
  // What of `prompt` would be reused now, and why not more.
  ReuseInfo Explain(const std::vector<TokenId>& prompt);
  // Waits a moment for the end of the running step, not for a long one.
  EngineStatus status();
  const EngineOptions& options() const { return options_; }

  // Takes no more requests, waits for running ones until the deadline and ends the rest, then saves
  // what is not on disk. Idempotent.
  void Shutdown(std::chrono::milliseconds timeout);

  // kDataLoss once a file of weights could not be read: every request fails from then on. Any
  // thread.
  Status weights_status() const { return model_->CheckReads(); }
  // For how long the engine's thread has been in one step, or in what is done between two; 0 while
  // it waits for work. Any thread.
  std::chrono::milliseconds round_age() const;
  // Of routed experts, begun to be read by steps so far: what takes long but goes on. Any thread.
  uint64_t weight_bytes_read() const;
  // For when that does not end any more, before the process does: saves what can be saved without
  // the thread, conversations it computes on as of their newest checkpoints, and fails all
  // requests. Returns how many conversations were not saved in time; nothing but status() may be
  // called afterwards, and the engine must not be destroyed.
  int64_t SaveWithoutThread(const Status& why, std::chrono::milliseconds timeout);

  // Runs `fn` on the engine's thread between two steps and waits for it. kUnavailable once the
  // engine is shutting down, kDeadlineExceeded when the running step outlasts the patience: then
  // `fn` is not run.
  Status BetweenSteps(const std::function<void(Scheduler&, StateCache&)>& fn);
  // The same; what goes wrong is logged.
  void RunBetweenSteps(const std::function<void(Scheduler&, StateCache&)>& fn);

 private:
  explicit Engine(const EngineOptions& options) : options_(options) {}
  Status Load(const Progress& progress);
  Status WarmUp(const Progress& progress);
  Status VerifyWeights(const Progress& progress);
  Result<VocabularyData> LoadVocabulary();
  Status CheckRequest(const GenerateRequest& request) const;
  void Run();

  EngineOptions options_;
  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<Backend> profiling_;  // around it, when steps are measured
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  MemoryPlan plan_;
  std::unique_ptr<MemoryGuard> guard_;
  std::unique_ptr<StateCache> cache_;
  std::unique_ptr<MemoryRelief> relief_;
  std::unique_ptr<Persistence> persistence_;
  std::unique_ptr<ExpertProfileFile> expert_profile_;  // null without a tier or a store
  std::unique_ptr<Scheduler> scheduler_;

  struct Arrival {
    RequestId id;
    GenerateRequest request;
    std::shared_ptr<RequestSink> sink;
  };
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  std::vector<Arrival> arrivals_;
  std::vector<RequestId> cancels_;
  std::vector<std::function<void()>> tasks_;
  bool attention_ = false;  // a save or a restore has come further
  RequestId next_id_ = 1;
  int64_t n_waiting_ = 0;  // in the scheduler, as of the last step
  SchedulerStatus before_step_;
  std::chrono::steady_clock::time_point step_began_;
  bool draining_ = false, stop_ = false;
  std::optional<std::chrono::steady_clock::time_point> round_began_;  // none: waits for work
  std::condition_variable drained_;
  bool idle_ = true;

  std::thread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_ENGINE_H_
