#ifndef HOLDFAST_STORE_STORE_TYPES_H_
#define HOLDFAST_STORE_STORE_TYPES_H_

// What goes into the store and comes out of it. A conversation is a chain of pages (a fixed run of
// tokens each, the last one perhaps partial) and running states at some of its positions; a
// position is the number of tokens before it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "base/status.h"
#include "state/layout.h"
#include "store/model_identity.h"

namespace holdfast {

// What a state must agree with to be used by this engine, and the sizes that reads are limited by;
// all from the engine's own StateLayout.
struct StoreKeys {
  ModelIdentity model;
  uint64_t trunk_layout_key = 0;
  uint64_t draft_layout_key = 0;  // 0: this engine has no draft layer
  std::string kv_format;          // KvFormatName
  // Numerics version, activation format, rope and selection options.
  std::string numerics_key;
  int page_tokens = 0;
  size_t page_bytes = 0, running_bytes = 0;
  size_t draft_page_bytes = 0, draft_running_bytes = 0;
  int64_t vocab_size = 0;
  int64_t max_tokens = 0;  // this engine's context

  // kInvalidArgument for sizes no layout has.
  Status Validate() const;
};

// From both layouts; `draft` may be null.
StoreKeys MakeStoreKeys(const ModelIdentity& model, const StateLayout& trunk,
                        const StateLayout* draft, std::string numerics_key, int64_t vocab_size,
                        int64_t max_tokens);

// One buffer of a conversation: page `index`, or the running state at position `index`.
struct PartRef {
  StateSection section = StateSection::kTrunk;
  bool running = false;
  int64_t index = 0;
};

// Runs `use` on the bytes of a part, which must not change meanwhile. For a save.
using PartSource = std::function<Status(
    const PartRef& part, const std::function<Status(std::span<const std::byte>)>& use)>;
// Runs `fill` once, on the buffers of all `parts` in their order. For a load; parts come in batches
// of at most kLoadBatch, so that they can be read in parallel.
using PartSink =
    std::function<Status(std::span<const PartRef> parts,
                         const std::function<Status(std::span<const std::span<std::byte>>)>& fill)>;
inline constexpr size_t kLoadBatch = 32;

// Why a running state was kept; in thinning order, the first to be dropped first.
enum class StateKind : uint8_t {
  kLadder = 0,     // inside a long read
  kCacheMark = 1,  // a client's cache_control
  kTurnEnd = 2,
  kBeforeReply = 3,  // before the generation prompt
  kSystem = 4,       // end of system and tools
  kLiveEnd = 5,
};
std::string_view StateKindName(StateKind kind);

// What a restored state must compute: the final mixed row (input of output.weight) of the token
// that follows it.
struct StateProof {
  int32_t next_token = 0;
  Hash128 row;
  friend bool operator==(const StateProof&, const StateProof&) = default;
};

struct SaveState {
  int64_t position = 0;  // in [1, n_live]
  StateKind kind = StateKind::kLiveEnd;
  bool has_draft = false;
  std::optional<StateProof> proof;  // none: no following token yet
};

// A message as the client sent it, or as it was returned to the client.
struct StoredMessage {
  std::string role;
  std::string content;  // JSON text, as the caller made it of what was received
  std::vector<std::string> tool_call_ids;
  Hash128 hash;  // the caller's; equal messages have equal hashes, the reverse is to be checked
  int64_t token_begin = 0, token_end = 0;  // its span in the conversation
};

struct SaveRequest {
  std::string conversation;  // 1 to 128 of [A-Za-z0-9._:-]
  std::string forked_from;   // of a new conversation; may be empty
  int64_t fork_position = 0;
  std::span<const int32_t> tokens;           // all token ids of the conversation
  std::span<const uint64_t> content_hashes;  // empty (all text), or one per token
  int64_t n_live = 0;  // tokens whose cells exist; tokens past it have none yet
  // The source has draft cells for every page. Pages that are stored already are not asked for.
  bool has_draft = false;
  // States to have; those stored already (same prefix) are not asked for, but get their proof.
  std::vector<SaveState> states;
  // Positions whose states this conversation no longer needs.
  std::vector<int64_t> drop_states;
  // All of this conversation's messages; none: they stay, but for those behind its tokens.
  std::optional<std::vector<StoredMessage>> messages;
  std::optional<std::string> title;
  std::string title_if_none;  // when it has none and `title` is not set
  std::optional<std::vector<std::string>> tags;
  PartSource source;
};

struct SaveReceipt {
  uint64_t bytes_written = 0;  // of the segment; 0 when only the catalogue changed
  int64_t durable_tokens = 0;  // the deepest position that can be resumed from disk
  std::string segment;         // empty when nothing was written
  int64_t n_pages_written = 0, n_pages_shared = 0;
};

// A stored position that can be resumed. Stays valid until something is removed; Load() says
// kNotFound then.
struct StoredPrefix {
  int64_t state_id = 0;
  int64_t position = 0;
  StateKind kind = StateKind::kLiveEnd;
  std::string conversation;       // the most recently used one that keeps it
  std::vector<int64_t> page_ids;  // covering [0, position)
  bool has_draft = false;         // every page and the state, for this engine's draft layout
  std::optional<StateProof> proof;
};

struct FindResult {
  std::optional<StoredPrefix> prefix;
  // The longest common beginning with anything stored, and the tokens that differ there (-1: one of
  // them ends).
  int64_t matched_tokens = 0;
  int32_t found = -1, expected = -1;
  std::string reason;  // why it is not deeper, one sentence
};

struct LoadOptions {
  PartSink sink;
  int64_t first_page = 0;  // pages before it are there already
  bool draft = true;       // ask for the draft part when it is whole
};

struct LoadReport {
  uint64_t bytes_read = 0;
  bool draft_loaded = false;
  std::string note;  // when a draft part was left out: why
};

struct ConversationInfo {
  std::string id, title;
  std::vector<std::string> tags;
  bool pinned = false;
  std::string quarantined;  // why, empty: it is sound
  std::string forked_from;
  int64_t fork_position = 0;
  int64_t n_tokens = 0;        // with those past the live end
  int64_t durable_tokens = 0;  // the deepest resumable position
  int64_t n_states = 0, n_messages = 0;
  int64_t created_ms = 0, used_ms = 0;  // Unix time
  uint64_t bytes = 0;                   // of all its parts, shared ones included
  std::string model;
  std::string numerics_key;
  bool usable = false;  // by an engine with this store's keys
};

struct StateInfo {
  int64_t position = 0;
  StateKind kind = StateKind::kLiveEnd;
  bool has_draft = false, has_proof = false;
  std::string quarantined;
};

struct ConversationDetail {
  ConversationInfo info;
  std::vector<int32_t> tokens;
  std::vector<uint64_t> content_hashes;  // empty when all are 0
  std::vector<StateInfo> states;         // ascending position
  std::vector<StoredMessage> messages;
};

inline constexpr int kMaxFoundMessages = 16;

// A message found again after a restart. Its span is to be checked against the tokens.
struct FoundMessage {
  std::string conversation;
  StoredMessage message;
};

struct ConversationTokens {
  std::vector<int32_t> ids;              // all, with those past the live end
  std::vector<uint64_t> content_hashes;  // empty when all are 0
  int64_t n_live = 0;
};

struct DiskUsage {
  uint64_t segment_bytes = 0;  // files
  uint64_t live_bytes = 0;     // parts that something needs
  uint64_t catalogue_bytes = 0;
  uint64_t quarantine_bytes = 0;    // parts kept though they do not verify
  uint64_t conversation_bytes = 0;  // sum over conversations, shared parts counted each time
  int64_t n_segments = 0, n_conversations = 0, n_pages = 0, n_states = 0;
};

struct GcReport {
  int64_t segments_deleted = 0, segments_rewritten = 0, orphans_removed = 0, orphans_kept = 0;
  uint64_t bytes_freed = 0, bytes_rewritten = 0;
};

struct VerifyReport {
  int64_t parts_checked = 0;
  uint64_t bytes_checked = 0;
  std::vector<std::string> problems;  // each also quarantined
};

// Takes the next bytes of something that is written from its beginning to its end.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

struct ImportOptions {
  std::string conversation;  // the id to give it; empty: the one in the file
  // When a conversation of this id is there already: one with the same tokens is what was asked
  // for, beside another one the import gets an id of its own. Else it is refused.
  bool beside_others = false;
  // A conversation that is not in the store has that id: the import gets one of its own.
  bool id_in_use = false;
  std::string name;  // what messages call the file; empty: its path
};

struct ImportReport {
  std::string conversation;
  int64_t n_tokens = 0, n_live = 0;
  uint64_t bytes_written = 0;
  std::vector<std::string> notes;  // what was left out, and why
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_STORE_TYPES_H_
