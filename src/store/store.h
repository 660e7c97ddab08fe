#ifndef HOLDFAST_STORE_STORE_H_
#define HOLDFAST_STORE_STORE_H_

// Conversations on disk: a SQLite catalogue and immutable segment files in one directory.
//
//   DIR/lock                 one owner at a time
//   DIR/catalogue.sqlite     conversations, token ids per page, states, messages
//   DIR/segments/*.seg       pages and running states, each with a checksum
//   DIR/quarantine/          files that did not verify; nothing deletes them but a person
//   DIR/exports/             session files named by clients
//   DIR/incoming/            session files that are still arriving; emptied by Open()
//
// Durability: when Save() (or any other change) returns OK it survives power loss. When it returns
// an error, the store holds either all of the change or nothing of it, and stays usable.
// Errors: kResourceExhausted for a full disk or budget, kUnavailable when the directory has
// vanished or belongs to another process, kDataLoss for what does not verify (it is quarantined
// first), kNotFound, kFailedPrecondition for another model, layout or format.
// Threads: every method may be called from any thread. Saves and GC run one at a time; loads run
// beside them.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "state/conversation_id.h"
#include "store/file_system.h"
#include "store/session_upload.h"
#include "store/store_types.h"

namespace holdfast {

struct StoreOptions {
  std::string dir;
  FileSystem* file_system = PosixFileSystem();
  uint64_t disk_budget_bytes = 0;  // of segment files; 0: no limit
  // Of what saves may write in an hour; 0: no limit. Nothing is refused by it: the caller asks
  // SecondsUntilAllowed() and waits.
  uint64_t write_limit_bytes_per_hour = 20'000'000'000;
  // Segments with a smaller share of needed bytes are rewritten by GC.
  double sparse_share = 0.5;
  int n_read_threads = 0;  // 0: as many as help, at most 4
  // Unix time in ms, and random numbers for file names; replaced by tests.
  std::function<int64_t()> now_ms;
  std::function<uint64_t()> random;
};

// $XDG_STATE_HOME/holdfast/store, else ~/.local/state/holdfast/store, from these two values (either
// may be empty; both: empty).
std::string DefaultStoreDir(std::string_view xdg_state_home, std::string_view home);

// OK when `name` can name a file inside a directory and nothing else: 1 to 255 of
// [A-Za-z0-9._-], no leading dot.
Status CheckPlainFileName(std::string_view name);

class Store {
 public:
  // Without keys the store can be listed and tended, not saved to or loaded from.
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options,
                                             const std::optional<StoreKeys>& keys);
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // What was noticed while opening (a damaged catalogue put aside, leftovers removed), for the log.
  virtual const std::vector<std::string>& notices() const = 0;

  // Gives a store opened without keys its keys, so that the model's identity can come from its
  // cache (identity_cache.h). Before any other thread uses it; kFailedPrecondition when it has
  // some.
  virtual Status UseKeys(const StoreKeys& keys) = 0;

  // --- What the engine does.
  virtual Result<SaveReceipt> Save(const SaveRequest& request) = 0;
  // The deepest resumable position <= tokens.size() - 1. `content_hashes`: empty, or one per token.
  virtual Result<FindResult> Find(std::span<const int32_t> tokens,
                                  std::span<const uint64_t> content_hashes = {}) = 0;
  // The deepest resumable position <= `at_most` of a conversation (-1: its live end).
  virtual Result<StoredPrefix> FindIn(std::string_view conversation, int64_t at_most = -1) = 0;
  // Reads pages and running state into the sink's buffers, checking each part. On error some
  // buffers hold rubbish: give it scratch, and make that live only afterwards.
  virtual Result<LoadReport> Load(const StoredPrefix& prefix, const LoadOptions& options) = 0;
  // Puts a state that failed its proof out of use, and all its pages: any of them may be wrong.
  // Saving the prefix again replaces them.
  virtual Status Quarantine(const StoredPrefix& prefix, const std::string& reason) = 0;
  // Marks it used now.
  virtual Status Touch(std::string_view conversation) = 0;
  // Messages kept with this hash, or that hold this tool call; newest conversation first, at most
  // kMaxFoundMessages.
  virtual Result<std::vector<FoundMessage>> FindMessages(const Hash128& hash) = 0;
  virtual Result<std::vector<FoundMessage>> FindToolCall(std::string_view tool_call_id) = 0;
  virtual Result<ConversationTokens> Tokens(std::string_view conversation) = 0;
  // The full identity is known now. When sessions of this provisional identity carry another full
  // one they are quarantined; returns how many.
  virtual Result<int64_t> SetFullIdentity(const Hash128& full) = 0;
  // Seconds until a save of `bytes` is within the write limit; 0: now.
  virtual double SecondsUntilAllowed(uint64_t bytes) = 0;

  // --- What people do.
  virtual Result<std::vector<ConversationInfo>> List() = 0;  // most recently used first
  virtual Result<ConversationDetail> Show(std::string_view conversation) = 0;
  virtual Status Remove(std::string_view conversation) = 0;
  virtual Status Pin(std::string_view conversation, bool pinned) = 0;
  virtual Status SetTitle(std::string_view conversation, std::string_view title) = 0;
  virtual Status SetTags(std::string_view conversation, const std::vector<std::string>& tags) = 0;
  // A new conversation that shares everything up to `position` (-1: all).
  virtual Status Fork(std::string_view conversation, std::string_view new_id,
                      int64_t position = -1) = 0;
  virtual Result<DiskUsage> Du() = 0;
  virtual Result<GcReport> Gc() = 0;
  // Reads every part; what does not verify is quarantined and listed.
  virtual Result<VerifyReport> Verify() = 0;
  // Writes a self-contained session file (docs/session_format.md); an existing file is replaced.
  virtual Status Export(std::string_view conversation, const std::string& path) = 0;
  // The same, given to `sink` in pieces; stops with the sink's error.
  virtual Status ExportTo(std::string_view conversation, const ByteSink& sink) = 0;
  // Checks the whole file before anything of it is stored.
  virtual Result<ImportReport> Import(const std::string& path, const ImportOptions& options) = 0;
  // The id in a session file, with the checks that its beginning allows. `name` is what messages
  // call it.
  virtual Result<std::string> SessionId(const std::string& path, const std::string& name) = 0;
  // Import for a file that arrives in pieces.
  virtual Result<std::unique_ptr<SessionUpload>> BeginUpload() = 0;
  // DIR/exports/NAME, created on demand; refuses anything but a plain name.
  virtual Result<std::string> ExportPath(std::string_view name) = 0;

  // A small cache for values that are only worth time (sampled model identities).
  virtual Result<std::optional<std::string>> CacheGet(std::string_view key) = 0;
  virtual Status CachePut(std::string_view key, std::string_view value) = 0;

 protected:
  Store() = default;
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_STORE_H_
