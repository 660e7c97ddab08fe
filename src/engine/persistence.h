#ifndef HOLDFAST_ENGINE_PERSISTENCE_H_
#define HOLDFAST_ENGINE_PERSISTENCE_H_

// Conversations go to the store and come back from it.
//
// Saving: a turn's end schedules a save; the engine's thread takes a snapshot when it is due (which
// copies nothing) and a thread of its own writes it. Restoring: pages and one running state are
// read into pool buffers, the row of the next token is computed on trial and compared with what was
// stored, and only then is the conversation known to the cache.
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
#include "model/model.h"
#include "state/state_cache.h"
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
};

struct RestoreReport {
  int64_t position = 0;
  double ms = 0.0;
  std::string note;  // when less came back than was stored
};

struct PersistenceStats {
  int64_t n_saves = 0, n_failed_saves = 0, n_restores = 0, n_failed_proofs = 0;
  uint64_t bytes_written = 0, bytes_read = 0;
  int64_t n_pending = 0;
  std::string last_error;
};

class Persistence {
 public:
  // `model` and `cache` outlive it. Errors: those of Store::Open.
  static Result<std::unique_ptr<Persistence>> Create(const PersistenceOptions& options,
                                                     Model* model, StateCache* cache);
  ~Persistence();

  Store* store() { return store_.get(); }  // any thread
  Autosave autosave() const { return options_.autosave; }

  // The final mixed row of the token that follows `position` in this conversation: what a restore
  // must compute again.
  void RecordProof(const Conversation& c, int64_t position, int32_t next_token,
                   std::span<const float> mixed);
  // The conversation, still bound, has come to the end of a turn (or was cut short). Computes the
  // proof of its live end, and schedules or (kTurn) makes the save. `record` may be null.
  void TurnEnded(Conversation* c, std::shared_ptr<const TurnRecord> record);
  Status SaveNow(const Conversation& c);
  // Starts saves that are due and takes in those that are done.
  void Tick();
  EvictAnswer Evict(const Conversation& c);
  // Brings the deepest stored state of `prompt` beyond `beyond` tokens into the cache. None: there
  // is nothing deeper, or it did not prove itself.
  // Among equally deep ones the end of conversation `named` is preferred.
  std::optional<RestoreReport> Restore(TokenView prompt, int64_t beyond, const std::string& named);
  // A conversation goes on under another id.
  void Renamed(const std::string& from, const std::string& to);
  // Saves everything that is not on disk; returns how many conversations could not be saved in
  // time.
  int64_t Flush(std::chrono::milliseconds timeout);

  int64_t durable_tokens(const std::string& id) const;  // any thread
  PersistenceStats stats() const;                       // any thread

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    ConversationSnapshot snapshot;
    std::map<int64_t, StateProof> proofs;
    std::vector<int64_t> dropped;
    std::shared_ptr<const TurnRecord> record;
  };
  struct Done {
    std::string id;
    TokenSequence tokens;
    std::vector<DiskPoint> points;
    std::shared_ptr<const TurnRecord> record;
    Result<SaveReceipt> receipt;
  };

  Persistence(const PersistenceOptions& options, Model* model, StateCache* cache);
  Job MakeJob(const Conversation& c);
  void Enqueue(const Conversation& c);
  Done Save(const Job& job);
  void TakeIn(Done done);
  void Work();
  Result<StateProof> ComputeProof(std::span<const int32_t> tokens, int32_t next_token,
                                  Buffer* running, std::span<Buffer* const> pages);
  Result<RestoredConversation> Load(const StoredPrefix& prefix, TokenView prompt,
                                    RestoreReport* report);
  Status Check(const StoredPrefix& prefix, const RestoredConversation& restored);
  void GiveId(const StoredPrefix& prefix, RestoredConversation* restored);

  const PersistenceOptions options_;
  Model* const model_;
  StateCache* const cache_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Buffer> log_;  // for rows on trial
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

  std::atomic<bool> cancel_identity_{false};
  std::thread identity_thread_;
  std::thread worker_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PERSISTENCE_H_
