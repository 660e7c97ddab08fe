#ifndef HOLDFAST_ENGINE_RESTORER_H_
#define HOLDFAST_ENGINE_RESTORER_H_

// Brings conversations back from the store while the others go on.
//
// What the store has of a prompt is looked up and read by threads of this class, into pool buffers
// that nobody else knows. Room for it is made, the row of the next token is computed on trial and
// compared with what was stored, and the conversation becomes known to the cache in Tick(), between
// two steps. One is read at a time, so that the next one shares its pages.
//
// Threads: the engine's, unless said otherwise.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/background_thread.h"
#include "engine/state_prover.h"
#include "state/state_cache.h"
#include "store/store.h"

namespace holdfast {

struct RestoreReport {
  int64_t position = 0;
  double ms = 0.0;   // since it was asked for
  std::string note;  // when less came back than was stored
};

// What the store has of one prompt. Whoever asked keeps it and looks at it between two steps.
class Restore {
 public:
  bool done() const { return stage_ == Stage::kDone; }
  // Once it is done. None: nothing deeper is stored, or it did not prove itself.
  const std::optional<RestoreReport>& report() const { return report_; }
  // Once it is done: where the prompt differs from everything stored, 0 where it does not, and why
  // nothing deeper could be read.
  int64_t differs_at() const { return differs_at_; }
  const std::string& reason() const { return reason_; }

 private:
  friend class Restorer;
  using Clock = std::chrono::steady_clock;
  enum class Stage { kFinding, kQueued, kReading, kDone };
  void DropBuffers() {
    state_ = {};
    shared_.clear();
    extra_.reset();
  }

  Stage stage_ = Stage::kFinding;
  std::vector<int32_t> prompt_;
  int64_t beyond_ = 0;
  std::string named_;
  Clock::time_point start_ = Clock::now();
  // Of the thread that finds or reads while it does:
  std::optional<StoredPrefix> prefix_;
  int64_t differs_at_ = 0;
  std::string reason_;
  RestoredConversation state_;
  std::vector<BlockReader> shared_;  // pages of state_ that others may own: held still
  int64_t first_page_ = 0;           // the first that is read
  BlockPtr extra_;                   // for the token behind it, when that begins a page
  Result<LoadReport> loaded_ = InternalError("not read");

  std::optional<RestoreReport> report_;
};

struct RestorerStats {
  int64_t n_restores = 0, n_failed_proofs = 0, n_running = 0;
  uint64_t bytes_read = 0;
};

class Restorer {
 public:
  // A conversation is known to the cache, proved or without a proof.
  using OnAdopted = std::function<void(const Conversation&, const StoredPrefix&)>;

  // All outlive it. `wake` is called from any thread when Tick() has something to do, `on_part`
  // from the reading one whenever it has come further.
  Restorer(Store* store, Model* model, StateCache* cache, StateProver* prover, OnAdopted on_adopted,
           std::function<void()> wake, std::function<void()> on_part);
  // A running read ends with its next batch of parts.
  ~Restorer();

  // Asks for the deepest stored state of `prompt` beyond `beyond` tokens; among equally deep ones
  // the end of conversation `named` is preferred.
  std::shared_ptr<const Restore> Start(TokenView prompt, int64_t beyond, const std::string& named);
  void Tick();
  RestorerStats stats() const;  // any thread

 private:
  using Job = std::shared_ptr<Restore>;

  // On threads of its own.
  void Find(Restore* job);
  void Read(Restore* job);
  void Arrive(Job job);

  void TakeUp(const Job& job);
  void DropNeedless();
  void BeginNext();
  Status MakeRoom(Restore* job);
  void Adopt(Restore* job);
  Status Prove(const Restore& job);
  void GiveId(Restore* job);
  void Finish(Restore* job);

  Store* const store_;
  Model* const model_;
  StateCache* const cache_;
  StateProver* const prover_;
  const OnAdopted on_adopted_;
  const std::function<void()> wake_, on_part_;
  std::deque<Job> queued_;  // found, wait for room and for the one that is read
  Job reading_;

  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Job> arrived_;
  RestorerStats stats_;

  BackgroundThread finder_{"find stored"}, reader_{"read stored"};  // end first
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_RESTORER_H_
