#ifndef HOLDFAST_ENGINE_PERSISTENCE_H_
#define HOLDFAST_ENGINE_PERSISTENCE_H_

// Conversations go to the store and come back from it.
//
// Saving: a turn's end schedules a save; the engine's thread takes a snapshot when it is due (which
// copies nothing) and a thread of its own writes it. Restoring: restorer.h. Nothing here waits for
// the disk but Flush().
//
// Threads: the engine's, unless said otherwise.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "engine/generator.h"
#include "engine/restorer.h"
#include "engine/state_prover.h"
#include "model/model.h"
#include "state/state_cache.h"
#include "store/model_identity.h"
#include "store/store.h"

namespace holdfast {

enum class Autosave {
  kTurn,  // a reply ends after its turn is durable
  kIdle,  // durable within the interval after the turn's end
  kOff,   // only on eviction and at shutdown
};
Result<Autosave> ParseAutosave(std::string_view name);  // "turn", "idle", "off"

struct PersistenceOptions {
  std::string dir;
  Autosave autosave = Autosave::kIdle;
  double interval_s = 10.0;
  uint64_t disk_budget_bytes = 0;  // 0: no limit
  uint64_t write_limit_bytes_per_hour = 20'000'000'000;
  std::string numerics_key;
  int64_t ctx = 0;
  FileSystem* file_system = PosixFileSystem();
  std::function<void()> wake;  // from any thread: Tick() has something to do; may be null
};

struct PersistenceStats {
  int64_t n_saves = 0, n_failed_saves = 0, n_restores = 0, n_failed_proofs = 0;
  uint64_t bytes_written = 0, bytes_read = 0;
  int64_t n_pending = 0;    // saves
  int64_t n_restoring = 0;  // running restores
  std::string last_error;
};

class Persistence {
 public:
  // Told once how a save went, in a later Tick() or Flush(), at the latest at the end of this.
  using OnSaved = std::function<void(const Status&)>;

  // `model` and `cache` outlive it. Errors: those of Store::Open.
  static Result<std::unique_ptr<Persistence>> Create(const PersistenceOptions& options,
                                                     Model* model, StateCache* cache);
  ~Persistence();

  Store* store() { return store_.get(); }  // any thread
  Autosave autosave() const { return options_.autosave; }
  const ModelIdentity& identity() const { return identity_; }

  // The final mixed row of the token that follows `position` in this conversation: what a restore
  // must compute again.
  void RecordProof(const Conversation& c, int64_t position, int32_t next_token,
                   std::span<const float> mixed);
  // The conversation, still bound, has come to the end of a turn (or was cut short). Computes the
  // proof of its live end, and schedules or (kTurn) begins the save. `record` may be null. True
  // when `on_saved` will be called.
  bool TurnEnded(Conversation* c, std::shared_ptr<const TurnRecord> record,
                 OnSaved on_saved = nullptr);
  // Begins a save.
  void Save(const Conversation& c, OnSaved on_saved);
  // Takes in saves and restores that are done, and starts those that are due.
  void Tick();
  EvictAnswer Evict(const Conversation& c);
  // Restorer::Start().
  std::shared_ptr<const Restore> StartRestore(TokenView prompt, int64_t beyond,
                                              const std::string& named) {
    return restorer_->Start(prompt, beyond, named);
  }
  // A conversation goes on under another id.
  void Renamed(const std::string& from, const std::string& to);
  // Saves everything that is not on disk; returns how many conversations could not be saved in
  // time.
  int64_t Flush(std::chrono::milliseconds timeout);

  // Waits for the saves that have begun or stand in line; how many are left. Any thread.
  int64_t WaitForSaves(std::chrono::milliseconds timeout);
  // When a save or a restore last moved some bytes. Any thread.
  std::chrono::steady_clock::time_point last_progress() const { return last_progress_; }

  int64_t durable_tokens(const std::string& id) const;  // any thread
  PersistenceStats stats() const;                       // any thread

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    ConversationSnapshot snapshot;
    std::map<int64_t, StateProof> proofs;
    std::vector<int64_t> dropped;
    std::shared_ptr<const TurnRecord> record;
    std::vector<OnSaved> on_saved;
  };
  struct Done {
    std::string id;
    TokenSequence tokens;
    std::vector<DiskPoint> points;
    std::shared_ptr<const TurnRecord> record;
    std::vector<OnSaved> on_saved;
    Result<SaveReceipt> receipt;
  };

  Persistence(const PersistenceOptions& options, Model* model, StateCache* cache);
  Job MakeJob(const Conversation& c);
  void Enqueue(const Conversation& c, OnSaved on_saved = nullptr);
  Done Write(Job job);
  void TakeInAll();
  void TakeIn(Done done);
  void Work();

  const PersistenceOptions options_;
  Model* const model_;
  StateCache* const cache_;
  std::unique_ptr<Store> store_;
  ModelIdentity identity_;
  std::optional<StateProver> prover_;
  std::map<std::string, Clock::time_point> due_;
  std::map<std::string, std::map<int64_t, StateProof>> proofs_;  // by conversation and position
  std::map<std::string, std::vector<int64_t>> saved_positions_;
  std::map<std::string, std::shared_ptr<const TurnRecord>> records_;  // that are not saved yet

  mutable std::mutex mutex_;
  std::condition_variable wake_, drained_;
  // Guarded by mutex_:
  std::deque<Job> jobs_;
  std::vector<Done> done_;
  bool working_ = false, stop_ = false;
  std::map<std::string, int64_t> durable_;
  PersistenceStats stats_;

  std::atomic<Clock::time_point> last_progress_ = Clock::now();
  std::atomic<bool> cancel_identity_{false};
  std::thread identity_thread_;
  std::thread worker_;
  std::unique_ptr<Restorer> restorer_;  // ends first
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PERSISTENCE_H_
