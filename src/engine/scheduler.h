#ifndef HOLDFAST_ENGINE_SCHEDULER_H_
#define HOLDFAST_ENGINE_SCHEDULER_H_

// Requests become rows of steps, and steps become tokens.
//
// Every step carries one row of each conversation that is decoding and a share of the prompts that
// are being read. Requests beyond the slots wait in order of arrival, side calls first.
//
// Threads: the engine's.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/draft_policy.h"
#include "engine/draft_source.h"
#include "engine/generator.h"
#include "engine/persistence.h"
#include "engine/sampler.h"
#include "engine/step_gate.h"
#include "engine/step_planner.h"
#include "grammar/token_grammar.h"
#include "model/model.h"
#include "state/state_cache.h"
#include "token/tokenizer.h"

namespace holdfast {

struct SchedulerOptions {
  int64_t ctx = 0;
  int n_slots = 4;
  double step_target_ms = 100.0;
  int max_drafts = -1;  // guesses in a window: -1 as many as pay, 0 none, else always that many
  DraftSource draft_source = DraftSource::kAuto;
  float min_draft_probability = 0.5f;  // a chain of the head's guesses ends below it
  std::function<void()> in_step;       // of tests: runs as part of every forward pass; may be null
};

struct SlotStatus {
  RequestId request = 0;
  std::string conversation;
  bool reading = false;
  int64_t n_tokens = 0, n_computed = 0, n_generated = 0;
  double tokens_per_s = 0.0;
};

struct SchedulerStatus {
  std::vector<SlotStatus> slots;  // the bound ones
  DraftCounts drafts;
  int64_t n_waiting = 0;
  int64_t n_restoring = 0;   // of them, those whose state is being read from the store
  int64_t n_committing = 0;  // replies that end with the commit of their turn
  int64_t n_steps = 0;
  double last_step_ms = 0.0;
};

enum class StepResult {
  kIdle,      // no request at all
  kProgress,  // a step ran
  kStalled,   // requests, but none can go on before memory is given back or a save ends
};

class Scheduler {
 public:
  // All outlive the scheduler. `persistence` may be null.
  Scheduler(Model* model, StateCache* cache, const Tokenizer* tokenizer, Persistence* persistence,
            const SchedulerOptions& options);
  ~Scheduler();

  // A request that has been checked; `sink` hears of it from Step() on.
  void Add(RequestId id, GenerateRequest request, std::shared_ptr<RequestSink> sink);
  void Cancel(RequestId id, Status why);
  void CancelAll(const Status& why);

  bool idle() const { return active_.empty() && waiting_.empty() && committing_.empty(); }
  int64_t n_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  // Admits what fits and runs one step.
  StepResult Step();
  // Ends the replies whose turn has been committed; `all`: the others too, there is no more time.
  void ReportCommitted(bool all = false);
  SchedulerStatus status() const;

  // From another thread, when a step does not end: true when the engine's thread is in a
  // computation of the model. It does not come out of it any more; the caller takes its place, for
  // what does not compute, and must not destroy anything.
  bool TakeOver() { return gate_.Take(); }
  // After that: fails all requests and parks what they had as of the newest checkpoints.
  void Abandon(const Status& why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Active {
    RequestId id = 0;
    GenerateRequest request;
    std::shared_ptr<RequestSink> sink;
    Clock::time_point submitted, begun, first_token;
    Conversation* conversation = nullptr;
    std::optional<Sampler> sampler;
    std::optional<Constraint> constraint;  // of the grammar, when there is one
    ReuseInfo reuse;
    std::shared_ptr<const Restore> restore;  // asked for; null: not yet
    int n_restores = 0;
    int64_t n_generated = 0;
    int64_t waited_steps = 0;
    int64_t n_drafted = 0, n_accepted = 0;
    DraftCounts drafts;
    std::unique_ptr<Buffer> log;  // of windows on trial; made when first needed
    bool decoding() const { return n_generated > 0; }
    bool scoring() const { return request.prompt_logprobs && !decoding(); }
    int64_t remaining() const { return conversation->n_tokens() - conversation->n_computed(); }
    bool restoring() const { return restore != nullptr && conversation == nullptr; }
  };
  // A reply whose last event waits for the store.
  struct Committing {
    std::shared_ptr<const bool> committed;
    std::shared_ptr<RequestSink> sink;
    GenerateResult result;
  };
  using ActivePtr = std::unique_ptr<Active>;

  void Admit();
  // OK: bound. kUnavailable: later. Others: the request failed.
  Status Begin(Active* active);
  bool WorthWaiting(const PrefixMatch& match) const;
  // `reused` of the prompt's tokens are; at `difference` it leaves all that is kept (0: nowhere).
  static bool MarkDifference(int64_t reused, int64_t difference,
                             std::vector<CheckpointMark>* marks);
  // What one request does in a step.
  struct Turn {
    Active* active = nullptr;
    int64_t n_rows = 0;     // drafts included
    int64_t n_guesses = 0;  // wanted
    std::vector<int32_t> drafts;
    int64_t n_counting = 0;                 // rows that count: all, or up to the last right guess
    std::vector<int32_t> output_rows;       // in the step; none: the prompt goes on
    std::vector<TokenEvent> prompt_tokens;  // to be reported, when the request asked for them
    std::optional<FinishReason> finish;
    Status status;  // of a finish with kError
  };
  // A row whose logits say how likely one of its turn's prompt_tokens is.
  struct ScoredRow {
    Turn* turn = nullptr;
    size_t token = 0;
  };
  bool drafting() const { return options_.max_drafts != 0 && source_ != DraftSource::kAuto; }
  bool drafts_by_head() const { return drafting() && source_ == DraftSource::kMtp; }
  std::vector<Turn> PlanStep();
  int64_t GuessesFor(const Active& active, int64_t n_decode);
  void MakeDrafts(std::vector<Turn>* turns);
  Result<std::vector<std::vector<TokenId>>> Guess(std::span<Turn* const> turns);
  Buffer* LogOf(Active* active);
  Status Compute(const Batch& batch);
  std::vector<const Conversation*> AddProofRows(std::span<const Turn> turns, Batch* batch) const;
  void RunStep(std::vector<Turn>* turns);
  void AddScoredRows(Turn* turn, int64_t first_row, std::vector<ScoredRow>* scored, Batch* batch);
  Status Score(const ScoredRow& row, std::span<float> logits) const;
  void TakeTokens(Turn* turn, std::span<float> logits);
  Result<TokenId> DrawToken(Active* active, std::span<const float> logits);
  // Draws and reports one token. Sets turn->finish when it is the last one.
  std::optional<TokenId> TakeToken(Turn* turn, std::span<float> logits);
  Status CommitWindows(std::span<const Turn> turns, const Batch& batch);
  void EndTurn(Turn* turn);
  void Finish(Active* active, FinishReason reason, Status status,
              bool keep);  // keep false: only up to its newest checkpoint
  static GenerateResult ResultOf(const Active& active, FinishReason reason, Status status);
  void EraseFinished();

  Model* const model_;
  StateCache* const cache_;
  const Tokenizer* const tokenizer_;
  Persistence* const persistence_;
  const SchedulerOptions options_;
  const DraftSource source_;     // kAuto: there is none
  std::vector<TokenId> banned_;  // padding ids, never sampled
  std::vector<ActivePtr> active_;
  std::deque<ActivePtr> waiting_;
  std::vector<Committing> committing_;
  StepTimer timer_;
  DraftPolicy draft_policy_;
  std::vector<std::unique_ptr<Buffer>> free_logs_;
  std::vector<float> logits_, mixed_;
  StepGate gate_;
  std::vector<BlockPtr> computed_on_;  // by a thread that does not come back
  int64_t n_steps_ = 0;
  double last_step_ms_ = 0.0;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_SCHEDULER_H_
