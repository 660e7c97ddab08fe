#ifndef HOLDFAST_VERIFY_STAGE_H_
#define HOLDFAST_VERIFY_STAGE_H_

// Scheduler, cache and store over a loaded model, driven step by step: what the engine's thread
// does, but whoever proves something decides what happens between which steps.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/persistence.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "state/state_cache.h"
#include "token/tokenizer.h"

namespace holdfast {

struct StageOptions {
  int64_t ctx = 0;
  int n_slots = 1;
  int max_drafts = 0;
  DraftSource draft_source = DraftSource::kAuto;
  float min_draft_probability = 0.0f;  // 0: whatever the head says is tried, right or wrong
  double step_target_ms = 100.0;
  uint64_t work_bytes = 0;       // for bound conversations
  uint64_t cache_ram_bytes = 0;  // for parked ones
  std::string store_dir;         // empty: no store
  Autosave autosave = Autosave::kOff;
  std::string numerics_key;
  int64_t min_checkpoint_gap = 2048;
};

// A request and what came of it.
class Asked : public RequestSink {
 public:
  Asked(GenerateRequest r, std::vector<TokenId> e)
      : request(std::move(r)), expected(std::move(e)) {}

  const GenerateRequest request;
  // Empty: anything. Otherwise the reply; the request is stopped behind the first wrong token.
  const std::vector<TokenId> expected;
  int64_t stop_after = -1;  // tokens after which the client goes away
  int number = -1;          // for messages

  std::vector<TokenId> tokens;
  int64_t n_read = 0;  // prompt tokens that have state
  bool done = false;
  GenerateResult result;
  // Index in the reply of the first token that is not as expected, -1: none.
  int64_t wrong_at = -1;

  void OnPromptProgress(int64_t processed, int64_t total, int64_t reused) override;
  SinkAnswer OnToken(const TokenEvent& event) override;
  void OnFinish(const GenerateResult& r) override;
};
using AskedPtr = std::shared_ptr<Asked>;

class Stage {
 public:
  // `model` and `tokenizer` outlive it.
  static Result<std::unique_ptr<Stage>> Create(Model* model, const Tokenizer* tokenizer,
                                               const StageOptions& options);
  // Running requests end; without Close() nothing more is saved.
  ~Stage() = default;

  AskedPtr Ask(GenerateRequest request, std::vector<TokenId> expected = {});
  void Cancel(const Asked& asked);  // ended ones and those of other stages are ignored
  // One step and what the engine does between two; kStalled waits a little.
  Status Step();
  Status RunUntil(const std::function<bool()>& done);
  Status RunAll();
  // As at the end of a process: requests end, everything is saved.
  Status Close();

  Model* model() { return model_; }
  StateCache& cache() { return *cache_; }
  Scheduler& scheduler() { return *scheduler_; }
  Persistence* persistence() { return persistence_.get(); }
  const std::vector<AskedPtr>& asked() const { return asked_; }

 private:
  explicit Stage(Model* model) : model_(model) {}

  Model* const model_;
  std::unique_ptr<StateCache> cache_;
  std::unique_ptr<Persistence> persistence_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<AskedPtr> asked_;
  std::map<const Asked*, RequestId> ids_;
  RequestId next_id_ = 1;
  int64_t n_stalls_ = 0;  // in a row
};

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_STAGE_H_
