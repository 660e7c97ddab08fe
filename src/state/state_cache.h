#ifndef HOLDFAST_STATE_STATE_CACHE_H_
#define HOLDFAST_STATE_STATE_CACHE_H_

// All conversations in RAM, and what is known of those on disk: find what of a prompt is computed,
// bind it, keep it, give it back.
//
// The life of a request:
//   match = Find(prompt)                     what can be reused, and why not more
//   (a match on disk: the store loads it, Adopt, Find again)
//   c = Begin(match, prompt, options)        bound; moves and copies nothing
//   while c->n_computed() < prompt: end <= NextStop(c); PrepareWrite(c, end); step; Advance(c, end)
//   replies: Append(c, token), then as above
//   TakeCheckpoint(c, kTurnEnd); Park(c)     a change of status
//
// Copies: a running state or a page that somebody else (or an own checkpoint) still names is copied
// when it is first written, in PrepareWrite; never otherwise. From the live end nothing is copied;
// from a checkpoint or another conversation at most one running state and one partial page.
//
// Between two calls a bound conversation's running state must be that of n_computed() tokens
// (rejected speculative rows rolled back).
//
// Threads: the engine's one thread calls it; stats() any.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "ops/backend.h"
#include "state/block_pool.h"
#include "state/cache_params.h"
#include "state/checkpoint_policy.h"
#include "state/conversation.h"
#include "state/eviction.h"
#include "state/index.h"
#include "state/layout.h"
#include "state/snapshot.h"
#include "state/token_sequence.h"

namespace holdfast {

enum class MatchSource : uint8_t {
  kNone,
  kLive,        // the conversation goes on at its live end
  kCheckpoint,  // the conversation again, from one of its checkpoints (an edit, a rewind)
  kBorrowed,    // another conversation's beginning
  kDisk,        // in the store only: load it first
};

// Why not one token more was reused.
enum class MatchLimit : uint8_t {
  kNothingKept,   // no token in common with anything
  kExtends,       // all that is kept was used, the prompt goes on behind it
  kDiffers,       // the prompt differs there from everything kept
  kWholePrompt,   // the prompt is kept to its end, but its last token is always read
  kNoCheckpoint,  // more tokens are common, but no running state was kept any nearer
  kNotComputed,   // more tokens are common with a conversation that is reading them right now
  kTooShort,      // fewer than min_read_tokens could be reused
  kRowsWanted,    // the request wants the rows of its prompt themselves (TakeNothing)
};

struct PrefixMatch {
  MatchSource source = MatchSource::kNone;
  int64_t position = 0;      // tokens reused
  std::string conversation;  // whose state it is
  bool live_end = false;
  uint64_t payload = 0;  // of a point on disk

  MatchLimit limit = MatchLimit::kNothingKept;
  int64_t common = 0;               // tokens in common with anything kept
  std::string common_conversation;  // with which
  bool differs = false;             // at `common`, where these two are:
  TokenKey expected, found;
  // A bound conversation that knows more of this prompt than it has computed: worth waiting for.
  std::string reading_conversation;
  int64_t reading_common = 0;

  // Reuses nothing; what is common stays known.
  void TakeNothing(MatchLimit why);

 private:
  friend class StateCache;
  OwnerId owner_ = 0;
};

struct BeginOptions {
  // The conversation is this one from now on, whatever it was before; what had the id until now
  // goes on under a fresh one. Empty: as it was matched, or a fresh one.
  std::string id;
  // Where checkpoints are worth keeping, any order: system end, before the reply, cache marks.
  std::vector<CheckpointMark> marks;
  bool with_draft = false;  // a conversation from position 0 gets draft parts
};

// A conversation as the store read it. Pages and states come from SharedPages and AllocateX.
struct RestoredConversation {
  std::string id;    // empty: a fresh one
  TokenView tokens;  // of n_computed tokens
  std::optional<TokenKey> next_token;
  std::vector<BlockPtr> pages;  // PagesFor(tokens.size())
  BlockPtr running;             // at tokens.size()
  std::vector<Checkpoint> checkpoints;
  bool has_draft = false, pinned = false;
  std::string forked_from;  // when it is only a beginning of that one
};

struct DiskPoint {
  int64_t position = 0;
  PointKind kind = PointKind::kCheckpoint;
  uint64_t payload = 0;
};

// Asked before a parked conversation that is not on disk is evicted, possibly again while its save
// runs. The hook may take a Snapshot and must not call anything else of the cache.
enum class EvictAnswer : uint8_t {
  kRelease,  // let it go (it cannot or need not be saved)
  kSaving,   // a save has begun: it stays until RegisterDisk tells that it is there
};
using EvictHook = std::function<EvictAnswer(const Conversation&)>;
// Told when a conversation goes on under another id. What is on disk stays under the old one.
using RenameHook = std::function<void(const std::string& from, const std::string& to)>;

enum class GiveBack : uint8_t {
  kFreeBuffers,  // pooled buffers nobody uses
  kOnDisk,       // RAM copies of what is on disk
  kParked,       // unpinned parked conversations, to disk where there is one
};

struct StateCacheStats {
  PoolCounters pages, running;
  size_t limit_bytes = 0, taken_bytes = 0, peak_bytes = 0;
  size_t parked_bytes = 0;  // named by parked conversations, shared blocks once
  int64_t n_bound = 0, n_parked = 0, n_on_disk = 0;
  int64_t n_evicted = 0, n_superseded = 0, n_not_kept = 0, n_pages_shared_on_seal = 0;
  int64_t n_checkpoints = 0, n_checkpoints_thinned = 0;
  std::array<int64_t, 5> n_begun = {};  // by MatchSource
  int64_t n_tokens_reused = 0;
};

struct StateCacheOptions {
  Backend* backend = nullptr;          // outlives the cache
  const StateLayout* trunk = nullptr;  // outlives the cache
  const StateLayout* draft = nullptr;  // null: no draft parts
  CacheParams params;
  CheckpointPolicy policy;
  MemoryBudget::Consent consent;        // the memory guard; null: always
  std::function<double()> now_s;        // null: the steady clock
  std::function<uint64_t()> random_id;  // null: the system's
};

class StateCache {
 public:
  // kInvalidArgument or kResourceExhausted with the arithmetic when the limit holds less than one
  // page and two running states.
  static Result<std::unique_ptr<StateCache>> Create(StateCacheOptions options);
  ~StateCache();
  StateCache(const StateCache&) = delete;
  StateCache& operator=(const StateCache&) = delete;

  // --- Finding ---
  // The longest resumable prefix of at most prompt.size() - 1 tokens; among equally long ones that
  // of conversation `named`, if it ends there. O(prompt).
  PrefixMatch Find(TokenView prompt, std::string_view named = {}) const;

  // --- Bound conversations ---
  // Binds the match's conversation when the prompt goes on at its live end, else a new one that
  // shares what matched. The match must be of this prompt and nothing may have happened since;
  // kFailedPrecondition for a match on disk or one that no longer holds.
  Result<Conversation*> Begin(const PrefixMatch& match, TokenView prompt,
                              const BeginOptions& options = {});
  // The next position a checkpoint is wanted at: a step must not cross it. > n_computed().
  int64_t NextStop(const Conversation& c) const;
  // Cells [n_computed, end) become writable and the running state private. kResourceExhausted when
  // there is no room, kUnavailable when there will be once running saves are done; the conversation
  // stays as it was, but for checkpoints it gives up when nothing else can make room.
  Status PrepareWrite(Conversation* c, int64_t end);
  // A token that was accepted, to be computed by a coming step.
  void Append(Conversation* c, TokenKey token);
  // The state now is that of `n_computed` tokens (<= n_tokens()). Seals full pages, takes planned
  // checkpoints.
  Status Advance(Conversation* c, int64_t n_computed);
  // Keeps the state at n_computed() (> 0). Copies nothing now.
  void TakeCheckpoint(Conversation* c, CheckpointKind kind);
  // Back to a checkpoint's position, or to 0; tokens after it are forgotten by this conversation.
  // kNotFound when there is no checkpoint at `position`.
  Status Truncate(Conversation* c, int64_t position);
  // Without draft parts from here on.
  void DropDraft(Conversation* c);
  // Keeps it, unless it is too short to be or there is no room; then `c` is gone and false is
  // returned. Tokens not computed are forgotten (the first stays as next_token()).
  bool Park(Conversation* c);
  // Like Park, for when the state at n_computed() is no good (a step failed, a row was not finite):
  // keeps the conversation as of its newest checkpoint, which no failed step has touched.
  bool ParkAtCheckpoint(Conversation* c);
  void Discard(Conversation* c);  // bound or parked

  // --- Parked conversations ---
  Conversation* FindById(std::string_view id);
  std::vector<const Conversation*> List() const;  // newest first
  // A parked copy that shares everything; an empty `new_id`: a fresh one. kNotFound,
  // kAlreadyExists, kFailedPrecondition, kInvalidArgument for no conversation id.
  Result<Conversation*> Fork(std::string_view id, std::string new_id);
  Status SetPinned(std::string_view id, bool pinned);
  // Bytes that only this conversation holds.
  size_t ExclusiveBytes(const Conversation& c) const;
  // Bytes of pages and running states that others hold too.
  size_t SharedBytes(const Conversation& c) const;
  // Seconds since it was last used.
  double AgeSeconds(const Conversation& c) const;

  // --- The store ---
  // What a save writes; blocks in it stay unchanged while it lives. Bound or parked.
  ConversationSnapshot Snapshot(const Conversation& c) const;
  // Sealed pages in RAM that hold exactly the cells of tokens' beginning.
  std::vector<BlockPtr> SharedPages(TokenView tokens, bool with_draft) const;
  Result<BlockPtr> AllocatePage(bool with_draft);
  Result<BlockPtr> AllocateRunning(bool with_draft);
  // Parked, most recently used. kAlreadyExists, kInvalidArgument (counts do not fit together).
  Result<Conversation*> Adopt(RestoredConversation restored);
  // Tells what is on disk of `id`, replacing what was told before.
  void RegisterDisk(const std::string& id, TokenView tokens, std::span<const DiskPoint> points);
  void UnregisterDisk(const std::string& id);
  bool OnDisk(const Conversation& c) const;  // all of n_computed()
  void set_evict_hook(EvictHook hook) { evict_hook_ = std::move(hook); }
  void set_rename_hook(RenameHook hook) { rename_hook_ = std::move(hook); }

  // --- Memory ---
  // Gives at least `bytes` back to the system if this level can. Returns the bytes.
  size_t Release(GiveBack level, size_t bytes);
  // Evicts parked conversations beyond the cache's budget (Park and RegisterDisk do it too).
  void Trim();
  // Measured; the unit of usefulness.
  void SetReadSpeed(double seconds_per_token) { seconds_per_token_ = seconds_per_token; }
  void SetRestoreSpeed(double seconds_per_byte) { seconds_per_byte_ = seconds_per_byte; }

  const StateLayout& trunk_layout() const { return *options_.trunk; }
  const StateLayout* draft_layout() const { return options_.draft; }
  const CheckpointPolicy& policy() const { return options_.policy; }
  StateCacheStats stats() const;

 private:
  explicit StateCache(StateCacheOptions options);
  struct DiskEntry {
    OwnerId owner = 0;
    std::vector<DiskPoint> points;
  };

  // Conversations and what they name (state_cache.cc).
  Conversation* NewConversation(std::string id, TokenView tokens);
  Conversation* ByOwner(OwnerId owner) const;  // null: not in RAM
  std::string FreshId();
  bool IdTaken(std::string_view id) const;
  void Rename(Conversation* c, std::string id);
  void TakeId(Conversation* c, const std::string& id);
  size_t page_tokens() const { return options_.trunk->page_tokens(); }
  void Ref(const Conversation& c, StateBlock* block);
  void Unref(const Conversation& c, StateBlock* block);
  void SetBound(Conversation* c, bool bound);
  void PushPage(Conversation* c, BlockPtr page);
  void ReplacePage(Conversation* c, size_t index, BlockPtr page);
  void KeepPages(Conversation* c, size_t n_pages);
  void SetRunning(Conversation* c, BlockPtr running);
  void AddCheckpoint(Conversation* c, int64_t position, CheckpointKind kind, BlockPtr running);
  void DropCheckpoint(Conversation* c, size_t index);
  void Touch(Conversation* c);
  // Forgets the tokens from `n` on; points up to there stay.
  void CutTokens(Conversation* c, int64_t n);
  void Erase(Conversation* c);
  void PublishStats();

  // Finding and beginning (state_cache_find.cc).
  void FindAmongBound(TokenView prompt, PrefixMatch* match) const;
  void PreferNamed(TokenView prompt, std::string_view named, PrefixMatch* match) const;
  MatchSource SourceOf(const Conversation& donor, const PrefixMatch& match) const;
  MatchLimit LimitOf(TokenView prompt, const PrefixMatch& match) const;
  Result<Conversation*> Continue(Conversation* c, const PrefixMatch& match, TokenView prompt);
  Result<Conversation*> Branch(const Conversation& donor, const PrefixMatch& match,
                               TokenView prompt, std::string id);
  Conversation* ShareInto(const Conversation& donor, int64_t position, BlockPtr running,
                          std::string id, TokenView tokens);

  // Writing (state_cache_write.cc).
  Status MakeRunningWritable(Conversation* c);
  Status MakePageWritable(Conversation* c, size_t index);
  void ThinOut(Conversation* c);
  Status SealPages(Conversation* c, int64_t from);
  BlockPtr TwinOf(const Conversation& c, size_t index) const;

  // Keeping and giving back (state_cache_keep.cc).
  bool Supersedes(const Conversation& longer, const Conversation& shorter) const;
  void DropSuperseded(Conversation* c);
  Result<BlockPtr> AllocateBlock(BlockPool* pool, bool with_draft, const StateBlock* source,
                                 const EvictionNeed& need);
  EvictionNeed NeedOf(const Conversation& c) const;
  EvictionCandidate CandidateOf(const Conversation& c) const;
  // The next block `c` writes to: empty, or a copy of `source`.
  Result<BlockPtr> AllocateFor(Conversation* c, BlockPool* pool, const StateBlock* source);
  bool GiveUpCheckpoint(Conversation* c);
  enum class Evicted { kYes, kNone, kSaving };
  Evicted EvictOne(const EvictionNeed& need, bool pinned_too, bool only_on_disk);
  void TrimFor(const EvictionNeed& need);

  const StateCacheOptions options_;
  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<BlockPool> page_pool_, running_pool_;
  StateIndex index_;
  std::unordered_map<OwnerId, std::unique_ptr<Conversation>> conversations_;
  std::vector<Conversation*> bound_;
  std::map<std::string, OwnerId, std::less<>> by_id_;
  std::map<std::string, DiskEntry, std::less<>> disk_;
  std::unordered_map<OwnerId, std::string> disk_ids_;
  EvictHook evict_hook_;
  RenameHook rename_hook_;
  OwnerId next_owner_ = 1;
  uint64_t use_clock_ = 0;
  size_t parked_bytes_ = 0;
  double seconds_per_token_ = 1e-3, seconds_per_byte_ = 1e-9;

  // Every snapshot holds it: what it keeps in memory comes back when the save is done.
  const std::shared_ptr<const int> snapshots_ = std::make_shared<const int>(0);

  StateCacheStats counts_;  // the engine's thread
  mutable std::mutex stats_mutex_;
  StateCacheStats stats_;  // guarded by stats_mutex_
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_STATE_CACHE_H_
