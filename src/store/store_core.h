#ifndef HOLDFAST_STORE_STORE_CORE_H_
#define HOLDFAST_STORE_STORE_CORE_H_

// What the parts of the store (save, load, GC, session files, lists) share.
//
// Locks: `write_mutex` is held through a whole save, GC, import or verify; `db_mutex` only around
// catalogue calls, and always taken second. Functions here say which they need.

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/catalogue.h"
#include "store/part_file.h"
#include "store/prefix_index.h"
#include "store/store.h"

namespace holdfast {

struct StoreCore {
  StoreOptions options;
  std::optional<StoreKeys> keys;
  FileSystem* file_system = nullptr;
  std::unique_ptr<FileLock> lock;
  std::string segments_dir, quarantine_dir, exports_dir, incoming_dir;
  uint64_t store_id = 0;

  std::mutex write_mutex;
  std::mutex db_mutex;
  std::unique_ptr<Database> db;  // guarded by db_mutex
  SpaceIds spaces;               // guarded by db_mutex; 0 until the first save

  // Bytes of recent saves with their times, for the write limit.
  std::mutex writes_mutex;
  std::deque<std::pair<int64_t, uint64_t>> writes;

  std::string SegmentPath(int64_t id) const;
  std::string TemporaryPath(int64_t id) const;
  // A new segment's number: positive, not in use. Needs db_mutex.
  Result<int64_t> NewSegmentId();
  // kUnavailable when the directory we opened is not there any more.
  Status CheckPresent();
  // kFailedPrecondition when opened without keys.
  Status NeedKeys() const;
  PrefixIndex Index() { return PrefixIndex(db.get(), spaces.space, keys->page_tokens); }
  // Runs `change` in one transaction. Needs db_mutex.
  Status Change(const std::function<Status()>& change);
};

// One row of `conversation`, with its tokens.
struct ConversationRow {
  std::string id;
  int64_t space = 0;
  int64_t parent = 0;  // last full page
  int64_t page = 0;    // covers the live tokens after it; 0: there are none
  int64_t n_live = 0;
  std::string bad;
  int page_tokens = 0;
  std::vector<int64_t> page_ids;  // full pages
  TokenList tokens;               // all, with those past the live end
};
// kNotFound for an unknown id. Needs db_mutex.
Result<ConversationRow> ReadConversation(Database* db, std::string_view id);

// The deepest resumable position <= at_most of `tokens`, for the present spaces. Needs db_mutex.
Result<std::optional<StoredPrefix>> FindStored(StoreCore* core, const TokenSpan& tokens,
                                               int64_t at_most);
// Sets `durable` of a conversation from what is stored. Needs db_mutex, inside a transaction.
Status RefreshDurable(StoreCore* core, std::string_view conversation);
Status RefreshAllDurable(StoreCore* core);

// All messages of a conversation of `n_tokens` tokens. Needs db_mutex.
Result<std::vector<StoredMessage>> ReadMessages(Database* db, std::string_view id,
                                                int64_t n_tokens);

// Each implements the method of Store with its name, and takes the locks it needs.
Result<SaveReceipt> SaveConversation(StoreCore* core, const SaveRequest& request);
Result<FindResult> FindPrefix(StoreCore* core, const TokenSpan& tokens);
Result<StoredPrefix> FindInConversation(StoreCore* core, std::string_view id, int64_t at_most);
Result<LoadReport> LoadPrefix(StoreCore* core, const StoredPrefix& prefix,
                              const LoadOptions& options);
Status QuarantineState(StoreCore* core, const StoredPrefix& prefix, const std::string& reason);
Status RemoveConversation(StoreCore* core, std::string_view id);
Result<GcReport> CollectGarbage(StoreCore* core);
Result<VerifyReport> VerifyStore(StoreCore* core);
Result<DiskUsage> MeasureStore(StoreCore* core);
Status ExportConversation(StoreCore* core, std::string_view id, const std::string& path,
                          const ByteSink& sink = nullptr);
Result<ImportReport> ImportSession(StoreCore* core, const std::string& path,
                                   const ImportOptions& options);
// What the beginning of a session file says of it.
struct SessionHead {
  std::string conversation;
  uint64_t file_bytes = 0;  // of the whole file
};
// Bytes of a session file before its manifest.
inline constexpr uint64_t kSessionPrefixBytes = 2 * kPartHeaderBytes;
// Of a file of which only the beginning may be there: the manifest's size from its first
// kSessionPrefixBytes, then, with the manifest there, what it says, with all checks of an import
// that need no more. `name` is what messages call the file.
Result<uint64_t> ReadManifestBytes(StoreCore* core, const std::string& path,
                                   const std::string& name);
Result<SessionHead> ReadSessionHead(StoreCore* core, const std::string& path,
                                    const std::string& name);
Result<std::vector<ConversationInfo>> ListConversations(StoreCore* core);
Result<ConversationDetail> ShowConversation(StoreCore* core, std::string_view id);
Status ForkConversation(StoreCore* core, std::string_view id, std::string_view new_id,
                        int64_t position);
Result<std::vector<FoundMessage>> FindStoredMessages(StoreCore* core, const Hash128* hash,
                                                     std::string_view tool_call_id);
Result<ConversationTokens> TokensOfConversation(StoreCore* core, std::string_view id);
Result<int64_t> SetFullModelIdentity(StoreCore* core, const Hash128& full);

// The same with write_mutex already held.
Result<SaveReceipt> SaveLocked(StoreCore* core, const SaveRequest& request);
Result<GcReport> CollectLocked(StoreCore* core, double sparse_share);
// Removes unfinished and unknown files from the segment directory.
Status RemoveOrphans(StoreCore* core, GcReport* report);
// Makes room for `bytes` within the disk budget: thins checkpoints of the least recently used
// conversations, then removes whole ones; pinned ones and `except` stay. kResourceExhausted when it
// is not enough. write_mutex held.
Status MakeRoom(StoreCore* core, uint64_t bytes, std::string_view except);

// Marks the page or state that uses `part` out of use and keeps the part. Takes db_mutex.
Status QuarantinePartUsers(StoreCore* core, int64_t part, const std::string& reason);

// Tags as the catalogue holds them, a JSON array; anything else reads as no tags.
std::string TagsToText(const std::vector<std::string>& tags);
std::vector<std::string> TagsFromText(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_STORE_CORE_H_
